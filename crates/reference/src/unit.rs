//! Model of one unit (a TLB or walk cache): a list of entries with the time of their last use.

use perforate_mmu::{CachedContent, CachedEntry, EntryKind, allow};

/// Entry of a TLB or walk cache in the reference model's list.
#[derive(Clone, Copy)]
struct ListedEntry {
    entry: CachedEntry,
    /// Time of the entry's last use: number of uses of the unit (TLB or walk cache) up to then.
    used: u64,
    /// False if another entry replaced this one in the same translation. The model then knows that the slot
    /// was in use, but not by which entry.
    is_known: bool,
    /// True if the entry may have been used after the time `used`, because no step shows such uses.
    may_be_younger: bool,
    /// True if the hardware may have rewritten the bits of this hole-bitmap entry in place.
    may_have_changed: bool,
}

/// Model of the entries of one TLB or walk cache.
#[derive(Clone, Default)]
pub(crate) struct UnitModel {
    /// Entries of the TLB or walk cache, in arbitrary order.
    list: Vec<ListedEntry>,
    /// Index into `list` of the entry in each slot of the TLB or walk cache.
    places: Vec<Option<usize>>,
    /// Number of uses of the TLB or walk cache so far, which the model takes as time.
    clock: u64,
}

/// Returns a TLB entry with its dirty bit cleared.
fn without_dirty(mut entry: CachedEntry) -> CachedEntry {
    if let CachedContent::Page { allows, .. } = &mut entry.content {
        *allows &= !allow::DIRTY;
    }
    entry
}

pub(crate) fn is_dirty(entry: &CachedEntry) -> bool {
    matches!(entry.content, CachedContent::Page { allows, .. } if allows & allow::DIRTY != 0)
}

/// True if two entries cannot coexist in a TLB or walk cache, because a look-up could not choose between
/// them. A coalesced run of pages excludes all other runs in its aligned window of `window` pages.
fn is_same(one: &CachedEntry, other: &CachedEntry, window: u64) -> bool {
    let sort = |entry: &CachedEntry| match entry.content {
        CachedContent::Page { kind: EntryKind::Run, .. } => {
            (0, entry.first.number() / window.max(1))
        }
        CachedContent::Page { .. } => (1, entry.first.number()),
        CachedContent::Bitmap(_) => (2, entry.first.number()),
        CachedContent::Node { level, directory, .. } => {
            (3 + u64::from(level) + 10 * directory as u64, entry.first.number())
        }
        CachedContent::Leaf => (40, entry.first.number()),
    };
    let is_run = |entry: &CachedEntry| {
        matches!(entry.content, CachedContent::Page { kind: EntryKind::Run, .. })
    };
    (one.space, one.is_guest_physical) == (other.space, other.is_guest_physical)
        && sort(one) == sort(other)
        && (is_run(one) || one.pages == other.pages)
}

impl UnitModel {
    pub(crate) fn entries(&self) -> impl Iterator<Item = &CachedEntry> {
        self.list.iter().filter(|held| held.is_known).map(|held| &held.entry)
    }

    fn held(&self, slot: u32) -> Option<&ListedEntry> {
        let place = self.places.get(slot as usize).copied().flatten()?;
        Some(&self.list[place])
    }

    fn held_mut(&mut self, slot: u32) -> Option<&mut ListedEntry> {
        let place = self.places.get(slot as usize).copied().flatten()?;
        Some(&mut self.list[place])
    }

    pub(crate) fn find(&self, slot: u32) -> Option<&CachedEntry> {
        self.held(slot).map(|held| &held.entry)
    }

    /// True if the model knows the entry in a slot of the TLB or walk cache.
    pub(crate) fn is_known(&self, slot: u32) -> bool {
        self.held(slot).is_some_and(|held| held.is_known)
    }

    /// Puts an entry into its slot of the TLB or walk cache, in place of the slot's previous entry.
    fn put(&mut self, entry: CachedEntry, is_known: bool, may_be_younger: bool) {
        self.clock += 1;
        let used = self.clock;
        let held = ListedEntry { entry, used, is_known, may_be_younger, may_have_changed: false };
        let slot = entry.slot as usize;
        if self.places.len() <= slot {
            self.places.resize(slot + 1, None);
        }
        match self.places[slot] {
            Some(place) => self.list[place] = held,
            None => {
                self.places[slot] = Some(self.list.len());
                self.list.push(held);
            }
        }
    }

    /// Copies an entry whose time of last use is unknown from the hardware to the model.
    pub(crate) fn take_over(&mut self, entry: CachedEntry) {
        self.put(entry, true, true);
    }

    /// Marks the entry in a slot of the TLB or walk cache as used now.
    pub(crate) fn touch(&mut self, slot: u32) {
        self.clock += 1;
        let used = self.clock;
        let held = self.held_mut(slot).expect("only what is held is used");
        (held.used, held.may_be_younger) = (used, false);
    }

    /// Records that the entry in a slot may have been used once more than the steps of translations show.
    pub(crate) fn may_be_younger(&mut self, slot: u32) {
        if let Some(held) = self.held_mut(slot) {
            held.may_be_younger = true;
        }
    }

    /// Marks the entry in a slot of the TLB as dirty.
    pub(crate) fn set_dirty(&mut self, slot: u32) {
        let held = self.held_mut(slot).map(|held| &mut held.entry.content);
        if let Some(CachedContent::Page { allows, .. }) = held {
            *allows |= allow::DIRTY;
        }
    }

    /// Permits the hardware to rewrite or remove the selected entries of a TLB or walk cache before the next
    /// comparison. Returns true if any entry is selected.
    pub(crate) fn expect_change(&mut self, is_selected: impl Fn(&CachedEntry) -> bool) -> bool {
        let mut is_any = false;
        for held in self.list.iter_mut().filter(|held| is_selected(&held.entry)) {
            held.may_have_changed = true;
            is_any = true;
        }
        is_any
    }

    pub(crate) fn retain(&mut self, is_kept: impl Fn(&CachedEntry) -> bool) {
        let before = self.list.len();
        self.list.retain(|held| is_kept(&held.entry));
        if self.list.len() < before {
            self.places.fill(None);
            for (place, held) in self.list.iter().enumerate() {
                self.places[held.entry.slot as usize] = Some(place);
            }
        }
    }

    /// Fills an entry into its slot of the TLB or walk cache. `is_known` is false if another entry replaces
    /// this one in the same translation. Entries of its size may use the `ways` ways that `is_allowed`
    /// accepts. `is_exact` is false if the steps do not show all uses, so that the victim cannot be checked.
    ///
    /// # Errors
    /// A description of what is wrong with the entry's slot.
    pub(crate) fn fill(
        &mut self,
        (entry, is_known): (CachedEntry, bool),
        window: u64,
        is_allowed: impl Fn(usize) -> bool,
        ways: usize,
        is_exact: bool,
    ) -> Result<(), String> {
        if is_known {
            let is_same =
                |held: &&ListedEntry| held.is_known && is_same(&held.entry, &entry, window);
            match self.list.iter().find(is_same) {
                Some(same) if same.entry.slot != entry.slot => {
                    return Err(format!("{entry:x?} is filled beside {:x?}", same.entry));
                }
                None if is_exact => self.check_victim(&entry, is_allowed, ways)?,
                _ => {}
            }
        }
        self.put(entry, is_known, false);
        Ok(())
    }

    /// Checks that a new entry uses an empty way of its TLB set, or else the least recently used way.
    fn check_victim(
        &self,
        entry: &CachedEntry,
        is_allowed: impl Fn(usize) -> bool,
        ways: usize,
    ) -> Result<(), String> {
        let (array, set, way) = entry.place;
        if !is_allowed(way) {
            return Err(format!("{entry:x?} is in a way that is not for it"));
        }
        // An entry that was filled and replaced in the same translation may have been for the same
        // page.
        let Some(before) = self.held(entry.slot).filter(|before| before.is_known) else {
            return Ok(());
        };
        let is_rival = |held: &&ListedEntry| {
            let (other_array, other_set, other_way) = held.entry.place;
            (other_array, other_set) == (array, set) && is_allowed(other_way)
        };
        let rivals: Vec<&ListedEntry> = self.list.iter().filter(is_rival).collect();
        let before_entry = before.entry;
        if rivals.len() < ways {
            let used = rivals.len();
            return Err(format!(
                "{entry:x?} takes the place of {before_entry:x?} where {used} of {ways} ways are in use"
            ));
        }
        let certain = rivals.iter().filter(|held| !held.may_be_younger);
        match certain.min_by_key(|held| held.used) {
            Some(oldest) if oldest.used < before.used && !before.may_be_younger => Err(format!(
                "{entry:x?} takes the place of {before_entry:x?}; {:x?} was used before that",
                oldest.entry
            )),
            _ => Ok(()),
        }
    }

    /// Compares the model's list with the entries `now` of the hardware's TLB or walk cache.
    ///
    /// # Errors
    /// A description of the first difference.
    pub(crate) fn compare(&mut self, now: &[CachedEntry]) -> Result<(), String> {
        for found in now {
            match self.held_mut(found.slot) {
                Some(held) => held.adopt(found)?,
                None => return Err(format!("{found:x?} should not be there")),
            }
        }
        if now.len() == self.list.len() {
            return Ok(());
        }
        let is_there = |entry: &CachedEntry| now.iter().any(|found| found.slot == entry.slot);
        let gone = self.list.iter().filter(|held| !is_there(&held.entry));
        if let Some(held) = gone.into_iter().find(|held| !held.may_have_changed) {
            return Err(format!("{:x?} should be there", held.entry));
        }
        self.retain(is_there);
        Ok(())
    }
}

impl ListedEntry {
    /// Copies the permitted differences between the hardware's entry `found` and the model's entry to the
    /// model. Any other difference is an error.
    fn adopt(&mut self, found: &CachedEntry) -> Result<(), String> {
        if self.entry == *found {
            self.may_have_changed = false;
            return Ok(());
        }
        // The walker sets the host's dirty bits when it translates addresses of guest tables, and
        // no step names these addresses.
        let is_dirtied = found.is_guest_physical
            && is_dirty(found)
            && without_dirty(self.entry) == without_dirty(*found);
        let is_rewritten = self.may_have_changed
            && CachedEntry { content: found.content, ..self.entry } == *found
            && matches!(found.content, CachedContent::Bitmap(_));
        if !is_dirtied && !is_rewritten {
            return Err(format!("{found:x?} is there instead of {:x?}", self.entry));
        }
        self.entry = *found;
        self.may_be_younger |= is_dirtied;
        self.may_have_changed = false;
        Ok(())
    }
}
