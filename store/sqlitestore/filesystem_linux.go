package sqlitestore

import (
	"fmt"
	"syscall"
)

// unfit maps the magic numbers of filesystems (statfs(2), linux/magic.h) that
// reach another machine, or may, to their names.
var unfit = map[uint32]string{
	0x6969:     "NFS",
	0x517b:     "SMB",
	0xfe534d42: "SMB",
	0xff534d42: "CIFS",
	0x564c:     "NCP",
	0x5346414f: "AFS",
	0x73757245: "Coda",
	0x01021997: "9P",
	0x00c36400: "Ceph",
	0x0bd00bd0: "Lustre",
	0x47504653: "GPFS",
	0x65735546: "FUSE",
}

// volatile are those in memory.
var volatile = map[uint32]string{
	0x01021994: "tmpfs",
	0x858458f6: "ramfs",
}

// filesystem returns the name of the filesystem that holds path if SQLite cannot
// be trusted there, and its name if it lies in memory.
func filesystem(path string) (unfitName, volatileName string, err error) {
	var st syscall.Statfs_t
	for {
		err = syscall.Statfs(path, &st)
		if err != syscall.EINTR {
			break
		}
	}
	if err != nil {
		return "", "", fmt.Errorf("sqlitestore: filesystem of %s: %w", path, err)
	}
	magic := uint32(st.Type) // the type's width depends on the processor
	return unfit[magic], volatile[magic], nil
}
