//! Operations of mechanisms, as a hypervisor with shadow tables sees them.

use perforate_schemes::gap_tolerant::SuperpageOperation;
use perforate_schemes::perforated::PerforatedOperation;
use perforate_schemes::segment::{SEGMENT_REGISTERS, SegmentOperation};
use perforate_types::{
    FormatOperation, Frame, GapTolerance, HoleSet, PageRun, Permissions, SpaceId, VirtualPage,
    Written,
};

#[test]
fn operations_tell_their_pages_and_what_they_write() {
    let (space, page, frame) = (SpaceId(3), VirtualPage::new(0x5_0800), Frame::new(0x700));
    let (permissions, holes) = (Permissions::READ, HoleSet::EMPTY);
    let mode = GapTolerance::PAIRED_2M;
    let (slice, second, selection) = (frame, frame, 1);
    let run = |pages| PageRun::new(space, page, pages);
    let rows: [(Box<dyn FormatOperation>, PageRun, Written); 11] = [
        (
            Box::new(SuperpageOperation::Map {
                space,
                page,
                mode,
                slice,
                second,
                selection,
                permissions,
            }),
            run(512),
            Written::Entry(2),
        ),
        (Box::new(SuperpageOperation::Unmap { space, page, mode }), run(512), Written::Entry(2)),
        (
            Box::new(SuperpageOperation::Protect { space, page, mode, permissions }),
            run(512),
            Written::Entry(2),
        ),
        (
            Box::new(SegmentOperation::Set { space, page, pages: 9, frame, permissions }),
            run(9),
            Written::Registers(SEGMENT_REGISTERS),
        ),
        (Box::new(SegmentOperation::Clear { space }), PageRun::whole(space), Written::Registers(1)),
        (Box::new(SegmentOperation::Escape { space, page }), run(1), Written::Registers(1)),
        (
            Box::new(PerforatedOperation::Perforate {
                space,
                page,
                block: frame,
                permissions,
                holes,
            }),
            run(512),
            Written::Entry(2),
        ),
        (Box::new(PerforatedOperation::Punch { space, page }), run(1), Written::Entry(2)),
        (Box::new(PerforatedOperation::Patch { space, page }), run(1), Written::Entry(2)),
        (
            Box::new(PerforatedOperation::MapHole { space, page, frame, permissions }),
            run(1),
            Written::Entry(1),
        ),
        (Box::new(PerforatedOperation::UnmapHole { space, page }), run(1), Written::Entry(1)),
    ];
    for (operation, pages, written) in rows {
        assert_eq!((operation.pages(), operation.written()), (pages, written), "{operation:?}");
    }
}
