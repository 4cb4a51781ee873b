//! Operations on 1GB pages.

use perforate_types::{Frame, PageSize, Permissions, TableOperation, VirtualPage};

use super::{AddressSpace, Effects, GIGABYTE_PAGES, GIGABYTE_REGIONS, Large, first_of_gigabyte};
use crate::OsError;
use crate::memory::blocks_of_huge;

const SIZE: PageSize = PageSize::Size1G;

impl AddressSpace {
    /// Maps the 1GB page `number` (address ÷ 1GB) where nothing is mapped.
    pub(crate) fn map_huge(
        &mut self,
        number: u64,
        block: Frame,
        permissions: Permissions,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError> {
        let page = VirtualPage::new(first_of_gigabyte(number));
        self.tables.extend(page.number(), 3, effects)?;
        self.tables.attach_huge(page.number());
        self.huge.insert(number, Large { block, permissions });
        self.usage.huge_pages += 1;
        let (space, frame) = (self.id, block);
        self.tell_mapped((page.number(), GIGABYTE_PAGES), frame, permissions, effects);
        effects.table(TableOperation::Map { space, page, size: SIZE, frame, permissions });
        Ok(())
    }

    /// First frame of the 1GB page `number`.
    pub(crate) fn huge_block(&self, number: u64) -> Frame {
        self.huge[&number].block
    }

    /// Unmaps a 1GB page; the references to its frames are now the caller's.
    pub(crate) fn unmap_huge(&mut self, number: u64, effects: &mut Effects<'_>) -> Frame {
        self.tell_unmapped(first_of_gigabyte(number), GIGABYTE_PAGES, effects);
        let huge = self.take_huge(number, effects);
        self.tables.detach_huge(first_of_gigabyte(number));
        self.tables.prune(first_of_gigabyte(number), effects);
        huge.block
    }

    /// Gives a 1GB page other permissions.
    pub(crate) fn protect_huge(
        &mut self,
        number: u64,
        permissions: Permissions,
        effects: &mut Effects<'_>,
    ) {
        let huge = self.huge.get_mut(&number).expect("1GB page");
        if huge.permissions == permissions {
            return;
        }
        huge.permissions = permissions;
        let page = VirtualPage::new(first_of_gigabyte(number));
        let space = self.id;
        self.tell_protected((page.number(), GIGABYTE_PAGES), permissions, effects);
        effects.table(TableOperation::Protect { space, page, size: SIZE, permissions });
        self.shootdown_large(page.number(), SIZE, effects);
    }

    /// Splits a 1GB page into 512 2MB pages.
    pub(crate) fn split_huge(
        &mut self,
        number: u64,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError> {
        let node = self.tables.allocate_directory(effects.memory)?;
        let huge = self.take_huge(number, effects);
        effects.ledger.done.huge_pages_split += 1;
        self.tables.replace_huge(first_of_gigabyte(number), node, effects);
        for (block, region) in blocks_of_huge(huge.block).zip(number * GIGABYTE_REGIONS..) {
            self.insert_large(region, Large { block, ..huge }, effects);
        }
        Ok(())
    }

    /// Clears the entry of a 1GB page. What becomes of its pages the caller says.
    fn take_huge(&mut self, number: u64, effects: &mut Effects<'_>) -> Large {
        let huge = self.huge.remove(&number).expect("1GB page");
        let page = VirtualPage::new(first_of_gigabyte(number));
        effects.table(TableOperation::Unmap { space: self.id, page, size: SIZE });
        self.shootdown_large(page.number(), SIZE, effects);
        self.usage.huge_pages -= 1;
        huge
    }
}
