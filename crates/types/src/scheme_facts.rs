//! What reports must know of a scheme besides its name.

use std::borrow::Cow;

/// What a scheme is in a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemeRole {
    /// 4KB pages: what others are measured against.
    Base,
    /// Large pages as today's systems have them.
    Conventional,
    /// Large pages on unfragmented memory: the share of its speed that others keep.
    Ideal,
    /// Translation in no time: the share of their time that others would save.
    Free,
    /// What headlines are about.
    Proposal,
    /// The proposal in another form: what headlines are about where it is not there itself.
    Variant,
    /// One of the others.
    Other,
}

/// A scheme as reports know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemeFacts {
    /// Name in results.
    pub name: Cow<'static, str>,
    /// What it is called otherwise, such as in names of curves.
    pub other_names: Vec<String>,
    /// Its colour, by what the colour stands for.
    pub colour: Cow<'static, str>,
    /// What it is in a comparison.
    pub role: SchemeRole,
    /// What a user sets to have it on today's systems; none if it is a proposal.
    pub setting: Option<Cow<'static, str>>,
}
