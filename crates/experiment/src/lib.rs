//! The papers' tables and figures as data: what is measured, what the papers claim, and whether our
//! measurements bear it out.
//!
//! An experiment is a file. It names a [`Kind`](kind::Kind) of measurement and its settings, an axis,
//! curves that are formulas over measurements, charts and claims. From the formulas follows which
//! points must be measured; each is measured once, whatever asks for it.

pub mod kind;
