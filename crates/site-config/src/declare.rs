//! The declarative form of a section: one row per key, from which everything about the key is made.
//!
//! A row of `section!` reads
//!
//! ```text
//! /// The manual: what the key is for.
//! field: Type = kind, default TOML, example TOML, effect EFFECT, when CONDITION, of machine;
//! ```
//!
//! `kind` (see `kinds`) reads, checks and prints the value. `default` is the value without the key; a key
//! without one is required, unless its kind has a default. `effect` is the time when a changed value takes
//! effect, if not at a reload. `when` names the sections in which the key has a meaning; in others it is not
//! printed. `of machine` marks a key that describes one machine and not the site. A key whose name is a
//! keyword of Rust has its name in quotes after the field's. The rows produce the section's struct, its draft
//! (each value with its place in the file), reading, printing, and the manual.
//!
//! A section may have an optional part: `sub part: Part, PartDraft, "description";` after its keys, with the
//! part declared as `[section.part]`. Its keys are keys of the section whose names begin with `part.`, as in
//! TOML. `Section, SectionDraft with link {` adds the keys of connections to other servers (see `link`) to a
//! section's own.

/// Declares a section; see the head of this file.
macro_rules! section {
    ($(#[doc = $about:literal])+ [[$name:ident]] $Section:ident, $Draft:ident with link $rows:tt) => {
        link_section!(($(#[doc = $about])+ [[$name]]) $Section, $Draft $rows);
    };
    ($(#[doc = $about:literal])+ [$name:ident . $part:ident] $Section:ident, $Draft:ident with link $rows:tt) => {
        link_section!(($(#[doc = $about])+ [$name . $part]) $Section, $Draft $rows);
    };
    ($(#[doc = $about:literal])+ [[$name:ident]] $($rest:tt)+) => {
        section!(@ (stringify!($name)) (stringify!($name)) () true [$($about),+] $($rest)+);
    };
    ($(#[doc = $about:literal])+ [$name:ident . $part:ident] $($rest:tt)+) => {
        section!(
            @ (concat!(stringify!($name), ".", stringify!($part))) (stringify!($name)) ($part) false
            [$($about),+] $($rest)+
        );
    };
    ($(#[doc = $about:literal])+ [$name:ident] $($rest:tt)+) => {
        section!(@ (stringify!($name)) (stringify!($name)) () false [$($about),+] $($rest)+);
    };
    (@word $field:ident) => { stringify!($field) };
    (@word $field:ident $name:literal) => { $name };
    (@name () $field:ident) => { stringify!($field) };
    (@name () $field:ident $name:literal) => { $name };
    (@name ($part:ident) $field:ident) => { concat!(stringify!($part), ".", stringify!($field)) };
    (@name ($part:ident) $field:ident $name:literal) => { concat!(stringify!($part), ".", $name) };
    (@default) => { None };
    (@default $default:tt) => { Some(stringify!($default)) };
    (@effect) => { $crate::table::ReloadEffect::Reload };
    (@effect $effect:expr) => {{
        #[allow(unused_imports)]
        use $crate::table::ReloadEffect::*;
        $effect
    }};
    (@owner) => { $crate::table::KeyOwner::Site };
    (@owner machine) => { $crate::table::KeyOwner::Machine };
    (@ $section:tt $of:tt $part:tt $repeated:literal [$($about:literal),+] $Section:ident, $Draft:ident {
        $(
            $(#[doc = $doc:literal])+
            $field:ident $($name:literal)?: $type:ty = $kind:expr $(, default $default:tt)?,
                example $example:tt $(, effect $effect:expr)? $(, when $when:expr)? $(, of $owner:ident)?;
        )+
        $(sub $sub:ident: $Sub:ident, $SubDraft:ident, $sub_doc:literal;)?
    }) => {
        $(#[doc = $about])+
        #[allow(rustdoc::broken_intra_doc_links)]
        #[derive(Debug, Clone, PartialEq)]
        pub struct $Section {
            $( $(#[doc = $doc])+ pub $field: $type, )+
            $( #[doc = $sub_doc] pub $sub: Option<$Sub>, )?
        }

        #[derive(Debug)]
        pub(super) struct $Draft {
            /// Beginning of the section.
            #[allow(dead_code)]
            pub(super) head: std::ops::Range<usize>,
            $( pub(super) $field: $crate::table::SpannedValue<$type>, )+
            $( pub(super) $sub: Option<$SubDraft>, )?
        }

        impl $crate::table::SectionTable for $Section {
            type Draft = $Draft;
            const NAME: &'static str = $section;

            fn manual() -> Vec<$crate::table::ConfigSection> {
                use $crate::table::{ConfigKey, ConfigSection, KeyRow, paragraph, words_of};
                let keys = vec![$({
                    let row = KeyRow {
                        section: $of,
                        name: section!(@name $part $field $($name)?),
                        default: section!(@default $($default)?),
                        example: concat!(section!(@word $field $($name)?), " = ", stringify!($example)),
                        effect: section!(@effect $($effect)?),
                        owner: section!(@owner $($owner)?),
                    };
                    ConfigKey::new(row, words_of::<$type>($kind), &[$($doc),+])
                }),+];
                let own = ConfigSection { name: Self::NAME, repeated: $repeated, doc: paragraph(&[$($about),+]), keys };
                #[allow(unused_mut)]
                let mut all = vec![own];
                $( all.extend($Sub::manual()); )?
                all
            }

            fn read(mut entry: $crate::read::SectionReader<'_>) -> $Draft {
                $Draft {
                    head: entry.head.clone(),
                    $( $field: entry.get(section!(@name $part $field $($name)?), $kind), )+
                    $( $sub: entry.part(stringify!($sub)).map($Sub::read), )?
                }
            }

            fn finish(draft: $Draft) -> Option<Self> {
                Some(Self {
                    $( $field: draft.$field.value?, )+
                    $( $sub: match draft.$sub {
                        Some(part) => Some(<$Sub as $crate::table::SectionTable>::finish(part)?),
                        None => None,
                    }, )?
                })
            }

            fn lines(&self) -> $crate::table::Lines {
                use $crate::kinds::ValueKind;
                let mut lines = Vec::new();
                $(if true $(&& $when(self))? && let Some(value) = ($kind).write(&self.$field) {
                    lines.push($crate::table::line(section!(@name $part $field $($name)?), &value));
                })+
                $( lines.extend(self.$sub.iter().flat_map(|part| part.lines())); )?
                lines
            }
        }
    };
}
/// Declares the whole configuration: its sections, in the order of the documentation; repeatable ones are in
/// brackets.
macro_rules! sections {
    (@type [$Section:ident]) => { Vec<$Section> };
    (@type $Section:ident) => { $Section };
    (@draft [$Section:ident]) => { Vec<sections!(@draft $Section)> };
    (@draft $Section:ident) => { <$Section as $crate::table::SectionTable>::Draft };
    (@manual [$Section:ident]) => { <$Section>::manual() };
    (@manual $Section:ident) => { <$Section>::manual() };
    (@read [$Section:ident] $document:ident) => { $document.each(<$Section>::NAME, <$Section>::read) };
    (@read $Section:ident $document:ident) => { <$Section>::read($document.single(<$Section>::NAME)) };
    (@finish [$Section:ident] $drafts:expr) => {
        $drafts.into_iter().map(<$Section>::finish).collect::<Option<_>>()?
    };
    (@finish $Section:ident $draft:expr) => { <$Section>::finish($draft)? };
    (@lines [$Section:ident] $sections:expr, $all:ident) => {
        $all.extend($sections.iter().map(|section| (<$Section>::NAME, section.lines())))
    };
    (@lines $Section:ident $section:expr, $all:ident) => { $all.push((<$Section>::NAME, $section.lines())) };
    ($($(#[doc = $doc:literal])+ $field:ident: $section:tt,)+) => {
        /// A complete, checked configuration, with every default filled in.
        #[derive(Debug, Clone, PartialEq)]
        pub struct Config {
            /// The file it was read from.
            pub file: std::path::PathBuf,
            $( $(#[doc = $doc])+ pub $field: sections!(@type $section), )+
        }

        /// A configuration as it is being read: every value with its place in the file, absent where it was
        /// faulty, so that one fault does not hide the others.
        #[derive(Debug)]
        struct Draft {
            $( $field: sections!(@draft $section), )+
        }

        impl Draft {
            /// Returns the manual of every section.
            fn sections() -> Vec<table::ConfigSection> {
                [$( sections!(@manual $section), )+].into_iter().flatten().collect()
            }

            fn read(document: &mut read::ConfigDocument<'_>) -> Self {
                Self { $( $field: sections!(@read $section document), )+ }
            }

            /// Returns the configuration; `None` if a value is absent, which was then reported as a fault.
            fn finish(self, file: &Path) -> Option<Config> {
                Some(Config { file: file.to_owned(), $( $field: sections!(@finish $section self.$field), )+ })
            }
        }

        impl Config {
            /// Returns every section with its keys and values, defaults included.
            fn sections(&self) -> Vec<(&'static str, table::Lines)> {
                let mut all = Vec::new();
                $( sections!(@lines $section self.$field, all); )+
                all
            }
        }
    };
}

/// Declares an enumeration and its words, or the words of one that is declared elsewhere.
macro_rules! words {
    ($(#[$about:meta])+ pub enum $Name:ident {
        $( $(#[$of:meta])+ $Value:ident = $word:literal, )+
    }) => {
        $(#[$about])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $Name { $( $(#[$of])+ $Value, )+ }

        words! { for $Name { $( $Value = $word, )+ } }
    };
    (for $Name:ident { $( $Value:ident = $word:literal, )+ }) => {
        impl $crate::ConfigWord for $Name {
            const WORDS: &'static [(&'static str, Self)] = &[$( ($word, Self::$Value), )+];
        }
    };
}
