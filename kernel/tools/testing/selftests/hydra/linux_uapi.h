/* SPDX-License-Identifier: GPL-2.0-only */
/* What the tests ask of Linux 6.12 and headers of older systems do not know. */
#ifndef LINUX_UAPI_H
#define LINUX_UAPI_H

#include <linux/fs.h>
#include <linux/types.h>
#include <linux/userfaultfd.h>
#include <sys/mman.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE	25
#endif

#ifndef UFFDIO_MOVE
#define UFFD_FEATURE_MOVE	(1 << 16)
struct uffdio_move {
	__u64 dst, src, len, mode;
	__s64 move;
};
#define UFFDIO_MOVE		_IOWR(UFFDIO, 0x05, struct uffdio_move)
#endif

#ifndef UFFD_FEATURE_WP_ASYNC
#define UFFD_FEATURE_WP_ASYNC	(1 << 15)
#endif

#ifndef PAGEMAP_SCAN
#define PAGE_IS_WRITTEN		(1 << 1)
#define PAGE_IS_HUGE		(1 << 6)
#define PM_SCAN_WP_MATCHING	(1 << 0)
struct page_region {
	__u64 start, end, categories;
};
struct pm_scan_arg {
	__u64 size, flags, start, end, walk_end, vec, vec_len, max_pages;
	__u64 category_inverted, category_mask, category_anyof_mask, return_mask;
};
#define PAGEMAP_SCAN		_IOWR('f', 16, struct pm_scan_arg)
#endif

#endif /* LINUX_UAPI_H */
