//! TLBs, walk caches, page-table formats and dimensions.
