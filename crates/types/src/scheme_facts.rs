//! Facts about a scheme that reports need.

use std::borrow::Cow;

/// Role of a scheme in a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemeRole {
    /// 4KB pages, the baseline of the other schemes.
    Base,
    /// Large pages as in current systems.
    Conventional,
    /// Large pages on unfragmented memory. Reports give the share of this speed that other schemes
    /// reach.
    Ideal,
    /// Translation that takes no time. Reports give the time that other schemes would save at best.
    Free,
    /// The subject of headlines.
    Proposal,
    /// The proposal in another form: the subject of headlines if the proposal itself was not run.
    Variant,
    /// Any scheme without one of these roles.
    Other,
}

/// Description of a scheme for reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemeFacts {
    /// Name in results files.
    pub name: Cow<'static, str>,
    /// Alternative names, such as those of curves.
    pub other_names: Vec<String>,
    /// Colour in reports, named by its meaning.
    pub colour: Cow<'static, str>,
    /// Role in a comparison.
    pub role: SchemeRole,
    /// Setting that enables the scheme on current systems; `None` for a proposal.
    pub setting: Option<Cow<'static, str>>,
}
