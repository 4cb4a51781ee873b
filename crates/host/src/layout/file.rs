//! Reading and writing of Mosalloc's layout files. Pages of 1GB are refused, because transparent
//! huge pages are 2MB at most. Page cache is in 4KB pages in every layout.

use std::path::Path;

use perforate_types::PageSize;
use perforate_workloads::layout::{Interval, LayoutFile as Mosaic, Pool, PoolLayout};

use super::{Intervals, Layout};
use crate::HostError;

/// A layout (2MB and 4KB pages for the parts of a program's memory), read from a file in Mosalloc's format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LayoutFile {
    /// Layout of both pools (malloc's memory, and anonymous mappings); its name is that of the file.
    pub layout: Layout,
    /// Sizes in bytes of malloc's pool and of the pool of anonymous mappings; 0 for no pool.
    pub pool_bytes: [u64; 2],
}

impl LayoutFile {
    /// Reads a layout file in Mosalloc's format.
    ///
    /// # Errors
    /// If the file is invalid: file, line, column, and what was expected.
    pub fn read(path: &Path) -> Result<Self, HostError> {
        let file = Mosaic::read(path, PageSize::Size2M)?;
        let pools = [Pool::Brk, Pool::Mmap].map(|pool| file.pool(pool));
        let [heap, mapped] = pools.map(|pool| pool.map_or(Intervals::NONE, intervals));
        let pool_bytes = pools.map(|pool| pool.map_or(0, |pool| pool.bytes));
        Ok(Self { layout: Layout { name: file.name, heap, mapped }, pool_bytes })
    }

    /// Writes the layout to a file in Mosalloc's format.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), HostError> {
        let Self { layout: Layout { name, heap, mapped }, pool_bytes } = self;
        let pool = |bytes: u64, intervals: &Intervals| {
            let large = |offsets| Interval { offsets, size: PageSize::Size2M };
            (bytes > 0).then(|| PoolLayout::new(bytes, intervals.iter().map(large)))
        };
        let pools = [pool(pool_bytes[0], heap), pool(pool_bytes[1], mapped), None];
        let text = Mosaic { name: name.clone(), pools }.to_csv();
        perforate_config::write_text(path, &text)
            .map_err(|error| HostError::file(path, error.to_string()))
    }
}

fn intervals(pool: &PoolLayout) -> Intervals {
    Intervals::new(pool.intervals.iter().map(|interval| interval.offsets.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = "type,pageSize,startOffset,endOffset\nbrk,-1,0,4294967296\n\
        mmap,-1,0,209715200\nbrk,2097152,0,2147483648\n";

    #[test]
    fn files_are_read_and_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("layout1.csv");
        std::fs::write(&path, SAMPLE).unwrap();
        let file = LayoutFile::read(&path).unwrap();
        assert_eq!(file.layout.name, "layout1");
        assert_eq!(file.pool_bytes, [4 << 30, 200 << 20]);
        assert_eq!(file.layout.heap, Intervals::of_pages(0..1024));
        assert_eq!(file.layout.mapped, Intervals::NONE);
        let again = folder.path().join("layout1.again.csv");
        file.write(&again).unwrap();
        assert_eq!(std::fs::read_to_string(&again).unwrap(), SAMPLE);
    }

    #[test]
    fn pages_of_1gb_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.csv");
        std::fs::write(&path, format!("{SAMPLE}mmap,1073741824,0,1073741824")).unwrap();
        let error = LayoutFile::read(&path).unwrap_err().to_string();
        assert!(error.contains("x.csv: line 5, column 6: 1GB pages; expected 4096"), "{error}");
    }
}
