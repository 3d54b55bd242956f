// Package queue holds what could not be sent, in one file, and sends it without
// a storm when the network is back.
//
// # Basics
//
// [Open] opens the file and reads what an earlier process left. [Queue.Enqueue]
// returns when the item is on the disk: from there on a kill at any instant
// loses nothing. Each item has an Idempotency-Key, minted when it is enqueued,
// so that all of its attempts are one operation to the server. [Queue.Run] sends
// one item after the other, until its context ends.
//
//	q, err := queue.Open(queue.Config{Path: "orders.queue"})
//	…
//	defer q.Close()
//	go q.Run(ctx, queue.HTTP(client, build)) // the caller owns the goroutine
//	…
//	_, err = q.Enqueue(queue.Entry{Payload: order})
//
// Ten thousand devices whose network returns at one instant must not send at
// that instant. [Queue.Reconnected], which Run calls when it starts, waits for a
// random part of min(n × PerItem, MaxSpread) before the first of n items.
//
// Back-off belongs to the queue and not to the item: an answer of 503 tells how
// the server is, so the next item waits as well. The wait that a server names is
// kept, never cut short. An item that the server has failed MaxAttempts times is
// a dead letter: out of the way, told to [Trace.Dead], still in the file, and
// sent again on [Queue.Revive]. A send that reached no server counts as no
// attempt, however long the device is offline.
//
// [Queue.NextAt], [Queue.SettleAt], [Queue.EnqueueAt] and [Queue.ReconnectedAt]
// hold the algorithm, with the time and the randomness as arguments; Run is a
// loop around them.
//
// # Caveats
//
// Delivery is at least once: a process that dies between the answer and the note
// of it sends again, with the same key.
//
// An attempt that a kill or a power cut ends stays counted, whatever it was doing:
// the file cannot tell a connection that was being made from an answer that was
// lost, and an item that kills its process must come to an end. One that meets
// MaxAttempts such ends is a dead letter: kept, told, to be revived. Ending Run
// by its context costs no attempt that had reached no server.
//
// A network that answers in a server's place (a captive portal) can be told from
// it by a status of 511 and by redirects, not by an answer of 200: use https.
//
// The queue is the layer that repeats. The context of a [Sender] says so, and a
// client of this module makes one attempt with it; any other client that retries
// by itself multiplies MaxAttempts.
//
// One process at a time: the lock is the operating system's lock on the file
// (flock), gone with the process that held it, and there is no pid file to go
// stale. It needs a local file system, and a Unix; elsewhere Open fails with
// [errors.ErrUnsupported].
//
// All items are held in memory besides. The file is at most about four times
// MaxBytes, and during a compaction there is a second file beside it, under the
// same name with ".new".
package queue
