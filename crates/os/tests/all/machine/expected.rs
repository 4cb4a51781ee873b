//! Short forms of the updates that tests expect, all in the first address space.

use perforate_schemes::perforated::PerforatedOperation;
use perforate_types::{PageSize, Permissions, Shootdown as S, SpaceId, TableOperation, Update};

use super::page;

const SPACE: SpaceId = SpaceId(0);
const P2M: PageSize = PageSize::Size2M;

pub fn remove(level: u8, address: u64, branch: u8) -> Update {
    TableOperation::RemoveNode { space: SPACE, level, page: page(address), branch }.into()
}

pub fn protected(address: u64, size: PageSize, permissions: Permissions) -> Update {
    TableOperation::Protect { space: SPACE, page: page(address), size, permissions }.into()
}

pub fn punched(address: u64) -> Update {
    PerforatedOperation::Punch { space: SPACE, page: page(address) }.into()
}

pub fn page_down(address: u64) -> Update {
    S::Page { space: SPACE, page: page(address) }.into()
}

pub fn large_down(address: u64) -> Update {
    S::Large { space: SPACE, page: page(address), size: P2M }.into()
}

pub fn bitmap_down(address: u64) -> Update {
    S::Bitmap { space: SPACE, page: page(address) }.into()
}
