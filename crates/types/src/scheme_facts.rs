//! Facts about a scheme that reports need.

use std::borrow::Cow;

/// Role of a scheme in a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemeRole {
    /// 4KB pages: the baseline that other schemes are compared with.
    Base,
    /// Large pages as in today's operating systems, such as transparent huge pages.
    Conventional,
    /// Large pages on unfragmented memory, an upper bound. Reports give the share of its speed that
    /// other schemes reach.
    Ideal,
    /// Translation that takes no time, an upper bound. Reports give the share of a scheme's run
    /// time that free translation would save.
    Free,
    /// Scheme that a paper proposes. The headline of a report is about it.
    Proposal,
    /// Variant of the proposal. The headline of a report is about it if the proposal itself was not
    /// run.
    Variant,
    /// Any scheme without one of these roles.
    Other,
}

/// Description of a scheme for reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemeFacts {
    /// Name of the scheme in results files.
    pub name: Cow<'static, str>,
    /// Alternative names of the scheme, such as those of a paper's curves.
    pub other_names: Vec<String>,
    /// Name of the scheme's colour in reports.
    pub colour: Cow<'static, str>,
    /// Role of the scheme in a comparison.
    pub role: SchemeRole,
    /// Setting of the operating system that enables the scheme on current systems; `None` if no current
    /// system has the scheme.
    pub setting: Option<Cow<'static, str>>,
}
