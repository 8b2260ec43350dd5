//! Settings of methods: what a user may choose, and the same with every choice made.

/// One setting, as command line, configuration files and other languages describe it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its name, with the section that it stands in: `net.width`.
    pub name: &'static str,
    /// The Rust type of its value.
    pub kind: &'static str,
    /// What it does.
    pub help: &'static str,
}

/// Choices of a section that can be complete.
pub trait Section: Clone + Default + serde::Serialize + serde::de::DeserializeOwned {
    /// The same with nothing left open.
    type Settings: Clone + std::fmt::Debug + serde::Serialize + Send + Sync + 'static;

    /// These choices, and where they leave something open the other ones.
    #[must_use]
    fn or(self, other: Self) -> Self;

    /// These choices as settings; the name of the first one that is open otherwise.
    fn resolved(self) -> Result<Self::Settings, &'static str>;
}

/// Declares a section of settings twice: the choices, in which everything may be left open, and the
/// settings, in which nothing is. Names and explanations are written once.
macro_rules! settings {
    (
        $(#[doc = $about:literal])+
        $section:tt: $settings:ident, $choices:ident {
            $($(#[doc = $help:literal])+ $name:ident: $kind:ty,)+
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $settings {
            $($(#[doc = $help])+ pub $name: $kind,)+
        }

        $(#[doc = $about])+
        ///
        /// What is left open is chosen from the data.
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct $choices {
            $(
                $(#[doc = $help])+
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $name: Option<$kind>,
            )+
        }

        impl $choices {
            pub(crate) const DESCRIPTIONS: &'static [crate::methods::Setting] = &[$(
                crate::methods::Setting {
                    name: crate::methods::settings::joined!($section, stringify!($name)),
                    kind: stringify!($kind),
                    help: concat!($($help),+).trim_ascii(),
                },
            )+];

            /// These choices as settings; the name of the first one that is open otherwise.
            pub fn complete(self) -> Result<$settings, &'static str> {
                Ok($settings {
                    $($name: self.$name.ok_or(
                        crate::methods::settings::joined!($section, stringify!($name)))?,)+
                })
            }
        }

        impl crate::methods::settings::Section for $choices {
            type Settings = $settings;

            fn or(self, other: Self) -> Self {
                Self { $($name: self.$name.or(other.$name),)+ }
            }

            fn resolved(self) -> Result<$settings, &'static str> {
                self.complete()
            }
        }

        impl From<$settings> for $choices {
            fn from(settings: $settings) -> Self {
                Self { $($name: Some(settings.$name),)+ }
            }
        }
    };
}

/// `section.name`, or the name alone in the section "".
macro_rules! joined {
    ("", $name:expr) => {
        $name
    };
    ($section:literal, $name:expr) => {
        concat!($section, ".", $name)
    };
}

/// Declares an enum whose values have names in configuration files and on the command line.
macro_rules! named {
    (
        $(#[$about:meta])+
        $enum:ident {
            $($(#[doc = $help:literal])+ $variant:ident = $name:literal,)+
        }
    ) => {
        $(#[$about])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub enum $enum {
            $($(#[doc = $help])+ #[serde(rename = $name)] $variant,)+
        }

        impl $enum {
            /// The names with what they mean.
            pub const NAMES: &'static [(&'static str, &'static str)] =
                &[$(($name, concat!($($help),+).trim_ascii()),)+];

            /// The name.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// The value of a name.
            pub fn named(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }
    };
}

pub(crate) use {joined, named, settings};
