//! Placeholders such as `{name}` in the texts of experiment files.

/// Values of placeholders; later values override earlier ones.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Values(Vec<(String, String)>);

impl Values {
    /// Adds a value for the placeholder `name`.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.0.push((name.into(), value.into()));
        self
    }

    /// Returns the value of the placeholder `name`; `None` if it has none.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Replaces every placeholder in `text` that has a value. Other placeholders stay.
    pub fn fill(&self, text: &str) -> String {
        let mut filled = String::new();
        let mut rest = text;
        while let Some(start) = rest.find('{') {
            let (before, from) = rest.split_at(start);
            filled += before;
            let Some(end) = from.find('}') else {
                rest = from;
                break;
            };
            filled += self.get(&from[1..end]).unwrap_or(&from[..=end]);
            rest = &from[end + 1..];
        }
        filled + rest
    }
}

/// Returns the names of all placeholders in a text.
pub fn placeholders(text: &str) -> impl Iterator<Item = &str> {
    text.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_replaced() {
        let values = Values::default().with("x", "0.5").with("x%", "50%").with("x", "0.6");
        assert_eq!(values.fill("portion={x%},{y},{x}"), "portion=50%,{y},0.6");
        assert_eq!(values.fill("{x"), "{x");
        assert_eq!(values.fill("}{x}{"), "}0.6{");
        assert_eq!(placeholders("a{x}b{x%}{").collect::<Vec<_>>(), ["x", "x%"]);
    }
}
