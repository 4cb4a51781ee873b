//! Writes options as text that can be read again.

use serde::ser::{self, Impossible, Serialize};

use crate::{Address, ConfigError, Share, Size, words};

/// A value as [`crate::read()`] reads it: a struct as `key=value,…`, units with their unit.
///
/// # Panics
/// If it has values in values that text cannot hold: sequences, maps, structs with structs in them.
pub fn write<T: Serialize + ?Sized>(value: &T) -> String {
    match written(value) {
        Written::Text(text) => text,
        Written::List(entries) => list(&entries),
    }
}

/// The options of `value` that are not as in `base`, as `key=value,…`.
///
/// # Panics
/// As [`write()`].
pub fn write_changed<T: Serialize>(value: &T, base: &T) -> String {
    let (entries, base) = (entries(value), entries(base));
    let changed = entries.into_iter().zip(base).filter(|(entry, base)| entry != base);
    list(&changed.map(|(entry, _)| entry).collect::<Vec<_>>())
}

fn list(entries: &[(&str, String)]) -> String {
    let entries = entries.iter().map(|(key, text)| format!("{}={text}", words::kebab(key)));
    entries.collect::<Vec<_>>().join(",")
}

/// Keys and texts of a struct, in the order of its fields.
pub(crate) fn entries<T: Serialize + ?Sized>(value: &T) -> Vec<(&'static str, String)> {
    match written(value) {
        Written::List(entries) => entries,
        Written::Text(text) => panic!("{text:?} is no list of options"),
    }
}

fn written<T: Serialize + ?Sized>(value: &T) -> Written {
    value.serialize(Writer).expect("options are made of structs, words and numbers")
}

enum Written {
    Text(String),
    List(Vec<(&'static str, String)>),
}

struct Writer;

type Done = Result<Written, ConfigError>;

fn text(text: impl ToString) -> Done {
    Ok(Written::Text(text.to_string()))
}

fn unknown<T>(kind: &str) -> Result<T, ConfigError> {
    Err(ConfigError::new(format!("{kind} cannot be written as an option")))
}

/// Values that are written as they print.
macro_rules! plain {
    ($($method:ident($type:ty))*) => {
        $(fn $method(self, value: $type) -> Done {
            text(value)
        })*
    };
}

impl ser::Serializer for Writer {
    type Ok = Written;
    type Error = ConfigError;
    type SerializeSeq = Impossible<Written, ConfigError>;
    type SerializeTuple = Impossible<Written, ConfigError>;
    type SerializeTupleStruct = Impossible<Written, ConfigError>;
    type SerializeTupleVariant = Impossible<Written, ConfigError>;
    type SerializeMap = Impossible<Written, ConfigError>;
    type SerializeStruct = List;
    type SerializeStructVariant = Impossible<Written, ConfigError>;

    plain! {
        serialize_i8(i8) serialize_i16(i16) serialize_i32(i32) serialize_i64(i64)
        serialize_u8(u8) serialize_u16(u16) serialize_u32(u32) serialize_u64(u64)
        serialize_f32(f32) serialize_f64(f64) serialize_char(char) serialize_str(&str)
    }

    fn serialize_bool(self, value: bool) -> Done {
        text(if value { "yes" } else { "no" })
    }

    fn serialize_bytes(self, _: &[u8]) -> Done {
        unknown("bytes")
    }

    fn serialize_none(self) -> Done {
        text("none")
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Done {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Done {
        self.serialize_none()
    }

    fn serialize_unit_struct(self, name: &'static str) -> Done {
        text(name)
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Done {
        text(variant)
    }

    /// Units are known by the names of their types.
    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Done {
        let Written::Text(number) = value.serialize(Self)? else { return unknown(name) };
        let whole = || number.parse::<u64>().unwrap_or_default();
        match name {
            "Share" => text(Share::from_number(number.parse().unwrap_or_default())),
            "Size" => text(Size(whole())),
            "Address" => text(Address(whole())),
            _ => text(number),
        }
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Done {
        let Written::Text(value) = value.serialize(Self)? else { return unknown(variant) };
        text(format!("{variant}={value}"))
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self::SerializeSeq, ConfigError> {
        unknown("a sequence")
    }

    fn serialize_tuple(self, _: usize) -> Result<Self::SerializeTuple, ConfigError> {
        unknown("a tuple")
    }

    fn serialize_tuple_struct(
        self,
        name: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleStruct, ConfigError> {
        unknown(name)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, ConfigError> {
        unknown(variant)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self::SerializeMap, ConfigError> {
        unknown("a map")
    }

    fn serialize_struct(self, _: &'static str, fields: usize) -> Result<List, ConfigError> {
        Ok(List(Vec::with_capacity(fields)))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, ConfigError> {
        unknown(variant)
    }
}

/// The entries of a struct.
struct List(Vec<(&'static str, String)>);

impl ser::SerializeStruct for List {
    type Ok = Written;
    type Error = ConfigError;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        key: &'static str,
        value: &T,
    ) -> Result<(), ConfigError> {
        let Written::Text(value) = value.serialize(Writer)? else { return unknown(key) };
        self.0.push((key, value));
        Ok(())
    }

    fn end(self) -> Done {
        Ok(Written::List(self.0))
    }
}
