//! Process images of a recording. Each start of a program, fork and execve makes an image. A process of
//! the trace is a sequence of images, because each execve replaces one image by the next.

use std::path::PathBuf;

use perforate_types::ProcessId;

use super::address_space::AddressSpace;
use super::relocation::Relocation;
use crate::RecordError;

/// State of a process image: the memory of a process between two execve calls.
#[derive(Clone, Debug, Default)]
pub struct Image {
    /// Number of the image's process in the trace; `None` until the image's first thread or fork is seen.
    pub id: Option<ProcessId>,
    /// Process ID in the operating system; 0 while unknown.
    pub process: u32,
    /// Path of the program in the image; empty while unknown.
    pub program: PathBuf,
    /// Mappings of the image, at the emulator's addresses.
    pub space: AddressSpace,
    /// Relocation of the image's addresses from the emulator's to native ones.
    pub relocation: Relocation,
    /// True once the trace contains the event that creates the image's process.
    pub is_known: bool,
    /// True once the trace contains the image's mappings. Until then, changes of its mappings are not
    /// written; all mappings are written when recording starts in the image again.
    pub is_mapped: bool,
    /// Process in whose memory the image runs until it executes another program (vfork); usually `None`.
    pub borrows: Option<ProcessId>,
    /// Number of the process image from which the memory is borrowed (vfork).
    pub lender: Option<u64>,
    /// Number of threads that run in the image.
    pub threads: u32,
    /// True once a thread has run in the image.
    pub has_started: bool,
    /// True once the image's process has ended or another image has replaced this one.
    pub has_ended: bool,
    /// True if the image's last thread ended in a call of execve.
    pub is_in_exec: bool,
}

impl Image {
    /// Process of the trace whose memory the image's instructions access.
    pub fn memory(&self) -> ProcessId {
        self.borrows.or(self.id).unwrap_or_default()
    }

    /// True if the image's events are written to the trace.
    pub fn is_traced(&self) -> bool {
        self.is_known && self.is_mapped && self.borrows.is_none() && !self.has_ended
    }
}

/// All process images of a recording, by number.
#[derive(Default)]
pub struct Images {
    /// Process images by number; boxed, because a damaged record may contain a very large number.
    images: Vec<Option<Box<Image>>>,
    processes: u32,
}

impl Images {
    /// Upper limit of process-image numbers; a larger number means that the record is damaged.
    const MAX: u64 = 1 << 22;

    /// Returns the process image with this number. Creates it if necessary.
    pub fn get(&mut self, number: u64) -> Result<&mut Image, RecordError> {
        if number >= Self::MAX {
            return Err(RecordError::Damaged("the number of an image"));
        }
        let number = number as usize;
        if self.images.len() <= number {
            self.images.resize_with(number + 1, || None);
        }
        Ok(self.images[number].get_or_insert_default())
    }

    /// Iterates over all process images, in order of number.
    pub fn iter(&self) -> impl Iterator<Item = &Image> {
        self.numbered().map(|(_, image)| image)
    }

    /// Iterates over all process images with their numbers, which may have gaps.
    pub fn numbered(&self) -> impl Iterator<Item = (u64, &Image)> {
        let known = self.images.iter().enumerate();
        known.filter_map(|(number, image)| Some((number as u64, image.as_deref()?)))
    }

    /// True if a process of the recording has not ended, or was forked and has not been seen yet.
    pub fn is_any_alive(&self) -> bool {
        self.iter().any(|image| image.id.is_some() && !image.has_ended)
    }

    /// Returns an unused number for a new process. Fails if there are too many processes.
    fn next_process(&mut self) -> Result<ProcessId, RecordError> {
        let id = u16::try_from(self.processes).map_err(|_| RecordError::TooManyProcesses)?;
        self.processes += 1;
        Ok(ProcessId(id))
    }

    /// Creates the process image of a child that is about to be forked from image `parent`. If `shares`
    /// (vfork), the child first runs in the parent's memory. Returns the child's process.
    pub fn fork(
        &mut self,
        parent: u64,
        child: u64,
        shares: bool,
    ) -> Result<ProcessId, RecordError> {
        let id = self.next_process()?;
        let lender = self.get(parent)?.lender.unwrap_or(parent);
        let is_traced = self.get(lender)?.is_traced();
        let parent = self.get(parent)?.clone();
        let image = self.get(child)?;
        *image = Image {
            id: Some(id),
            borrows: shares.then(|| parent.memory()),
            lender: shares.then_some(lender),
            is_known: is_traced && !shares,
            is_mapped: parent.is_mapped,
            program: parent.program,
            space: parent.space,
            relocation: parent.relocation,
            // The child's first thread may have been seen before its parent's fork.
            process: image.process,
            threads: image.threads,
            has_started: image.has_started,
            ..Image::default()
        };
        Ok(id)
    }

    /// Records that a program was loaded into process image `number`. The image belongs to a new process, or
    /// replaces the previous image of its process (execve).
    pub fn load(&mut self, number: u64) -> Result<(), RecordError> {
        let process = self.get(number)?.process;
        let before = self.images[..number as usize].iter_mut().rev().flatten();
        let before = before
            .filter(|image| image.process == process && image.id.is_some())
            .find(|image| !image.has_ended);
        let inherited = before.map(|image| {
            image.has_ended = true;
            (image.id, image.is_known)
        });
        let (id, is_known) = match inherited {
            Some(inherited) => inherited,
            None => (Some(self.next_process()?), false),
        };
        let image = self.get(number)?;
        (image.id, image.is_known, image.is_mapped) = (id, is_known, false);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_of_one_process_follow_each_other() {
        let mut images = Images::default();
        images.get(0).unwrap().process = 100;
        images.load(0).unwrap();
        let root = images.get(0).unwrap();
        (root.is_known, root.is_mapped) = (true, true);
        assert_eq!(root.id, Some(ProcessId(0)));

        // A fork, then a vfork; both children execute another program.
        assert_eq!(images.fork(0, 1, false).unwrap(), ProcessId(1));
        assert_eq!(images.fork(0, 2, true).unwrap(), ProcessId(2));
        for (child, process) in [(1, 101), (2, 102)] {
            images.get(child).unwrap().process = process;
        }
        assert!(images.get(1).unwrap().is_traced());
        assert!(!images.get(2).unwrap().is_traced());
        assert_eq!(images.get(2).unwrap().memory(), ProcessId(0), "runs in its parent's memory");
        for (number, process) in [(3, 102), (4, 101)] {
            images.get(number).unwrap().process = process;
            images.load(number).unwrap();
        }
        let (third, fourth) = (images.get(3).unwrap().clone(), images.get(4).unwrap().clone());
        assert_eq!((third.id, third.is_known), (Some(ProcessId(2)), false), "starts empty");
        assert_eq!((fourth.id, fourth.is_known), (Some(ProcessId(1)), true), "is replaced");
        assert!(!third.is_traced() && !fourth.is_traced(), "until its memory is in the trace");
        assert!(images.get(1).unwrap().has_ended && !images.get(0).unwrap().has_ended);
        assert!(images.get(1 << 40).is_err());
    }

    #[test]
    fn a_number_far_beyond_the_others_takes_little_memory() {
        let mut images = Images::default();
        images.get(Images::MAX - 1).unwrap().process = 7;
        assert_eq!(images.iter().count(), 1, "those between are not made");
        assert_eq!(images.numbered().next().unwrap().0, Images::MAX - 1);
        assert_eq!(images.get(Images::MAX - 1).unwrap().process, 7);
        assert!(images.get(Images::MAX).is_err());
    }
}
