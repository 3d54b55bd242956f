package sqlitestore

import "golang.org/x/sys/unix"

// mountPoint reports whether something is mounted at the path itself. The kernel
// says so since Linux 5.8 (statx(2), STATX_ATTR_MOUNT_ROOT). Devices are compared
// only where it does not: a file of an overlay may have another device than its
// directory.
func mountPoint(path string) (bool, error) {
	var st unix.Statx_t
	for {
		err := unix.Statx(unix.AT_FDCWD, path, 0, 0, &st)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil || st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT == 0:
			return otherDevice(path) // before 5.8, or a sandbox that does not know the call
		}
		return st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
	}
}
