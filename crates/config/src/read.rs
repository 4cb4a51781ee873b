//! Parser of options: `key=value,key=value`, and single values.

use serde::de::{self, DeserializeOwned, DeserializeSeed, MapAccess, Visitor};

use crate::unit::number;
use crate::{ConfigError, OptionTexts, words};

/// Parses the text of an option.
///
/// - A struct is `key=value,…`. A key without a value is a flag: it sets a bool, or its word is both an
///   alias of a field and the field's value (`clustered` for `shape=clustered`). `default` is an empty list.
/// - An `Option` is `none` or a value.
/// - An enum is the word of a variant, or `variant=value`.
/// - A bool is `yes` or `no`. Whole numbers are written as for [`crate::Count`].
///
/// # Errors
/// The first problem, with the path of keys to it.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, ConfigError> {
    T::deserialize(Written::Text(text.trim()))
}

/// Form in which an option's value was given: a text, a key without a value, or a group of options.
#[derive(Clone, Copy)]
pub(crate) enum Written<'a> {
    Text(&'a str),
    /// Key that was given without a value.
    Flag(&'a str),
    Group(&'a OptionTexts),
}

type Entries<'a> = Vec<(&'a str, Written<'a>)>;

impl<'a> Written<'a> {
    /// Text of the single value that was given; an error for a key without a value or a group.
    fn text(self) -> Result<&'a str, ConfigError> {
        match self {
            Self::Text(text) => Ok(text),
            Self::Flag(key) => Err(ConfigError::new(format!("has no value; write {key}=…"))),
            Self::Group(_) => Err(ConfigError::new("expected one value, not several by key")),
        }
    }

    /// Keys and values of the list that was given, as a group or as a text `key=value,…`.
    fn entries(self) -> Result<Entries<'a>, ConfigError> {
        let text = match self {
            Self::Group(given) => return Ok(given.entries()),
            written => written.text()?,
        };
        if text.is_empty() {
            return Err(ConfigError::new("is empty; write default if nothing is to be changed"));
        }
        let words = text.split(',').map(str::trim).filter(|word| *word != "default");
        let entry = |word: &'a str| match word.split_once('=') {
            Some((key, value)) => (key.trim(), Self::Text(value.trim())),
            None => (word, Self::Flag(word)),
        };
        Ok(words.map(entry).collect())
    }
}

/// Replaces the keys of a list of keys and values by the matching names of fields. An unknown key is an
/// error.
pub(crate) fn as_fields<'a>(
    entries: Entries<'a>,
    fields: &'static [&'static str],
) -> Result<Entries<'a>, ConfigError> {
    let named = entries.into_iter().map(|(key, value)| {
        let field = fields.iter().find(|field| words::same(field, key));
        let field = field.ok_or_else(|| ConfigError::unknown_key(key, fields))?;
        Ok((*field, value))
    });
    named.collect()
}

/// Implements the deserializer's methods for whole numbers of all widths.
macro_rules! whole_numbers {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ConfigError> {
            visitor.visit_u64(number::count(self.text()?, u64::MAX).map_err(ConfigError::new)?)
        })*
    };
}

impl<'de> de::Deserializer<'de> for Written<'de> {
    type Error = ConfigError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ConfigError> {
        match self {
            Self::Group(_) => self.deserialize_map(visitor),
            _ => visitor.visit_borrowed_str(self.text()?),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ConfigError> {
        let text = match self {
            Self::Flag(_) => "yes",
            written => written.text()?,
        };
        match text {
            "yes" | "true" | "1" => visitor.visit_bool(true),
            "no" | "false" | "0" => visitor.visit_bool(false),
            _ => Err(ConfigError::new(words::none_of(text, &["yes", "no"]))),
        }
    }

    whole_numbers! {
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ConfigError> {
        let text = self.text()?;
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => visitor.visit_f64(number),
            _ => Err(ConfigError::new(format!("expected a number, not {text:?}"))),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ConfigError> {
        match self {
            Self::Text("none") => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, ConfigError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ConfigError> {
        visitor.visit_map(List { entries: self.entries()?.into_iter(), value: None })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ConfigError> {
        let entries = as_fields(self.entries()?, fields)?;
        visitor.visit_map(List { entries: entries.into_iter(), value: None })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ConfigError> {
        let text = match self {
            Self::Flag(word) => word,
            written => written.text()?,
        };
        let (word, value) = match text.split_once('=') {
            Some((word, value)) => (word.trim(), Some(Self::Text(value.trim()))),
            None => (text, None),
        };
        let name = variants.iter().find(|variant| words::same(variant, word));
        let name = name.ok_or_else(|| ConfigError::new(words::none_of(word, variants)))?;
        visitor.visit_enum(Variant { name, value })
    }

    serde::forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 f32 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct identifier ignored_any
    }
}

/// Deserializer of a list of keys and values.
struct List<'a> {
    entries: std::vec::IntoIter<(&'a str, Written<'a>)>,
    value: Option<(&'a str, Written<'a>)>,
}

impl<'de> MapAccess<'de> for List<'de> {
    type Error = ConfigError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, ConfigError> {
        self.value = self.entries.next();
        self.value.map(|(key, _)| seed.deserialize(Written::Text(key))).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, ConfigError> {
        let (key, value) = self.value.take().expect("serde asks for a value after its key");
        seed.deserialize(value).map_err(|error| error.under(words::kebab(key)))
    }
}

/// Deserializer of an enum variant.
struct Variant<'a> {
    name: &'static str,
    value: Option<Written<'a>>,
}

impl<'de> de::EnumAccess<'de> for Variant<'de> {
    type Error = ConfigError;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(
        self,
        seed: V,
    ) -> Result<(V::Value, Self), ConfigError> {
        Ok((seed.deserialize(Written::Text(self.name))?, self))
    }
}

impl<'de> de::VariantAccess<'de> for Variant<'de> {
    type Error = ConfigError;

    fn unit_variant(self) -> Result<(), ConfigError> {
        match self.value {
            None => Ok(()),
            Some(_) => Err(ConfigError::new(format!("{} has no value", self.name))),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(
        self,
        seed: T,
    ) -> Result<T::Value, ConfigError> {
        let value = self.value.unwrap_or(Written::Flag(self.name));
        seed.deserialize(value).map_err(|error| error.under(self.name))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, ConfigError> {
        Err(ConfigError::new(format!("{} has several values and cannot be read", self.name)))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ConfigError> {
        let value = self.value.unwrap_or(Written::Flag(self.name));
        de::Deserializer::deserialize_struct(value, self.name, fields, visitor)
    }
}
