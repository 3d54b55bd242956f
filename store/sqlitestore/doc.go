// Package sqlitestore keeps state in one SQLite file, for one process.
//
// # Basics
//
//	s, err := sqlitestore.Open(ctx, sqlitestore.Config{Path: "/var/lib/comporta/state.db"})
//	if err != nil { ... }
//	defer s.Close()
//
// What a method says is on the disk when it returns: the file is in WAL mode with
// synchronous=FULL. One goroutine writes. It puts all that waits for it into one
// transaction, so that sixty-four callers share one fsync; one that is alone waits
// for nobody. Readers have connections of their own and wait for no writer.
//
// The directory must exist. The file, which holds answers, is readable by its
// owner only; so are the two that SQLite puts beside it (-wal, -shm) and the lock
// (.lock). The lock is the operating system's and ends with the process, however
// that dies. The file .lock stays; what is written in it is for people.
//
// [Backup] copies a state, and [Check] reads all of it and reports what is damaged,
// also while it is in use. A record is kept with a checksum: one that is not what
// was written is refused with [ErrCorrupt] by who reads it, and others are told.
//
// # Caveats
//
// One process at a time: a second one is refused with [ErrInUse]. Several
// gateways share PostgreSQL. The lock lies beside the file, so a file of several
// names is refused with [ErrNames]: one with hard links, or one that is mounted by
// itself (mount its directory). Where the kernel does not tell, which is outside
// Linux and before 5.8, only mounts from another device are found.
//
// A network's filesystem keeps neither SQLite's locks nor its shared memory
// reliably: it is refused with [ErrFilesystem] where it can be told (Linux, macOS,
// FreeBSD). So is FUSE, behind which anything may be; Config.AnyFilesystem is for
// who knows better.
//
// Systems without flock(2), Windows among them, are refused.
//
// After a failed fsync nobody knows what is on the disk, and a second one may
// report success without having written anything. The store then refuses all
// but reading until it is opened anew.
//
// A file that is removed, replaced or moved while it is in use, or its log, would
// take what nobody finds again. Both are looked for by their names before each
// commit and by Health. When one is gone or another, the store refuses all but
// reading with [ErrMoved] until it is opened anew. The lock is not watched: who
// removes it lets a second process in.
//
// A full disk fails calls with store.ErrFull and changes nothing. The store goes
// on by itself once there is room.
//
// When the wall clock is set back between two processes, leases and lives that the
// first one left last that much longer. While a process runs it goes by the
// monotonic clock.
//
// Copying the file with cp while it is in use yields a damaged or stale copy: use
// [Backup], or the command .backup of sqlite3.
package sqlitestore
