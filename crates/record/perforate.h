/* Markers for `perforate record --region markers`.
 *
 * PERFORATE_BEGIN and PERFORATE_END are no-operations with a number that the recorder recognises;
 * they cost nothing natively. Programs without inline assembly call
 * prctl(PERFORATE_BEGIN_NUMBER) and prctl(PERFORATE_END_NUMBER), which fail with EINVAL but are
 * recognised too. All threads and processes are recorded between the two. There may be several
 * regions, but they do not nest. Beginning and ending a region takes some milliseconds. */
#ifndef PERFORATE_H
#define PERFORATE_H

#define PERFORATE_BEGIN_NUMBER 0x50460001
#define PERFORATE_END_NUMBER 0x50460002

#define PERFORATE_TEXT(number) #number
#define PERFORATE_MARKER(number) \
    __asm__ volatile(".byte 0x0f, 0x1f, 0x84, 0x00; .long " PERFORATE_TEXT(number) : : : "memory")
#define PERFORATE_BEGIN PERFORATE_MARKER(0x50460001)
#define PERFORATE_END PERFORATE_MARKER(0x50460002)

#endif
