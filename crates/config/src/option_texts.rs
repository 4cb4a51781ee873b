//! Options as texts, before their values are parsed.

use std::fmt;

use serde::de::{self, Deserialize, DeserializeOwned, Deserializer, MapAccess, Visitor};

use crate::read::Written;
use crate::{ConfigError, Key, words};

/// Option texts by key, and groups of such texts: the settings of an experiment, the flags of a
/// command line, the keyword arguments of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OptionTexts(Vec<(String, Value)>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Text(String),
    Group(OptionTexts),
}

impl OptionTexts {
    /// True if no option has a text.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the text of an option, even if the option has one already.
    pub fn insert(&mut self, key: impl Into<String>, text: impl Into<String>) {
        self.0.push((key.into(), Value::Text(text.into())));
    }

    /// Sets the text of an option, replacing earlier texts.
    pub fn replace(&mut self, key: impl Into<String>, text: impl Into<String>) {
        let key = key.into();
        self.0.retain(|(known, _)| !words::same(known, &key));
        self.insert(key, text);
    }

    /// True if a text was given for the option `key`.
    pub fn contains(&self, key: &str) -> bool {
        self.0.iter().any(|(known, _)| words::same(known, key))
    }

    /// Moves all keys with the prefix `NAME-` or `NAME.` into a group of this name, without the prefix:
    /// `host-memory` becomes `memory` of the group `host`.
    #[must_use]
    pub fn grouped(self, name: &str) -> Self {
        let (mut group, mut others) = (Self::default(), Self::default());
        for (key, value) in self.0 {
            match words::kebab(&key)
                .strip_prefix(name)
                .and_then(|rest| rest.strip_prefix(['-', '.']))
            {
                Some(rest) => group.0.push((rest.to_owned(), value)),
                None => others.0.push((key, value)),
            }
        }
        if !group.0.is_empty() {
            others.0.push((name.to_owned(), Value::Group(group)));
        }
        others
    }

    /// Removes and parses the options of `T`.
    ///
    /// # Errors
    /// The first option with a wrong value.
    pub fn take<T: DeserializeOwned>(&mut self) -> Result<T, ConfigError> {
        let fields = fields::<T>();
        let is_of_type = |key: &str| fields.iter().any(|field| words::same(field, key));
        let all = std::mem::take(&mut self.0).into_iter();
        let (own, others) = all.partition(|(key, _)| is_of_type(key));
        self.0 = others;
        Self(own).read()
    }

    /// Removes the group of this name and returns it; `None` if there is no such group.
    pub fn take_group(&mut self, name: &str) -> Option<Self> {
        let is_group =
            |(key, value): &(String, Value)| key == name && matches!(value, Value::Group(_));
        let place = self.0.iter().position(is_group)?;
        match self.0.remove(place).1 {
            Value::Group(group) => Some(group),
            Value::Text(_) => None,
        }
    }

    /// Checks that no option is left after all known ones were taken.
    ///
    /// # Errors
    /// An unknown key. The error suggests the nearest of the `known` keys.
    pub fn refuse_rest(&self, known: impl FnOnce() -> Vec<Key>) -> Result<(), ConfigError> {
        let Some((key, _)) = self.0.first() else { return Ok(()) };
        let known = known();
        let names: Vec<&str> = known.iter().map(|key| key.name.as_str()).collect();
        Err(ConfigError::unknown_key(key, &names))
    }

    /// Checks that each key is an option of `A` or of `B`.
    ///
    /// # Errors
    /// An unknown key. The error suggests the nearest known key.
    pub fn check_keys<A: DeserializeOwned, B: DeserializeOwned>(&self) -> Result<(), ConfigError> {
        let known = [fields::<A>(), fields::<B>()].concat();
        let is_known = |key: &str| known.iter().any(|field| words::same(field, key));
        match self.0.iter().find(|(key, _)| !is_known(key)) {
            Some((key, _)) => Err(ConfigError::unknown_key(key, &known)),
            None => Ok(()),
        }
    }

    /// Parses all options as one `T`.
    ///
    /// # Errors
    /// The first option with a wrong value, or a key that is not an option of `T`.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, ConfigError> {
        T::deserialize(Written::Group(self))
    }

    pub(crate) fn entries(&self) -> Vec<(&str, Written<'_>)> {
        fn entry((key, value): &(String, Value)) -> (&str, Written<'_>) {
            match value {
                Value::Text(text) => (key, Written::Text(text)),
                Value::Group(group) => (key, Written::Group(group)),
            }
        }
        self.0.iter().map(entry).collect()
    }
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for OptionTexts {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(options: I) -> Self {
        let text = |(key, text): (K, V)| (key.into(), Value::Text(text.into()));
        Self(options.into_iter().map(text).collect())
    }
}

impl<'de> Deserialize<'de> for OptionTexts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Texts;
        impl<'de> Visitor<'de> for Texts {
            type Value = OptionTexts;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("options such as key=value,key=value")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<OptionTexts, A::Error> {
                let mut given = OptionTexts::default();
                while let Some((key, text)) = map.next_entry::<String, String>()? {
                    given.insert(key, text);
                }
                Ok(given)
            }
        }
        deserializer.deserialize_map(Texts)
    }
}

/// Names and aliases of the fields of `T`; empty if `T` is not a struct.
pub(crate) fn fields<T: DeserializeOwned>() -> &'static [&'static str] {
    struct Probe<'a>(&'a mut &'static [&'static str]);

    impl<'de> Deserializer<'de> for Probe<'_> {
        type Error = ConfigError;

        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, ConfigError> {
            Err(de::Error::custom("only the fields are read"))
        }

        fn deserialize_struct<V: Visitor<'de>>(
            self,
            _: &'static str,
            fields: &'static [&'static str],
            visitor: V,
        ) -> Result<V::Value, ConfigError> {
            *self.0 = fields;
            self.deserialize_any(visitor)
        }

        serde::forward_to_deserialize_any! {
            bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
            option unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier
            ignored_any
        }
    }

    let mut fields: &'static [&'static str] = &[];
    drop(T::deserialize(Probe(&mut fields)));
    fields
}
