// Package repeat says whether a request was seen before and what became of it,
// in bounded memory.
//
// # Basics
//
// A [Table] remembers fingerprints of requests for a window and, of each, how often
// it was seen and how it ended. A [Detector] is a compiled [Config]
// over a table: [Detector.SeeAt] files a request and writes its
// [comporta.Sighting]; [Detector.ResolveAt] tells the table what the service
// made of it. Knowing the end is what separates a retry from a poll: whoever
// asks again for what failed retries, whoever asks again for what succeeded
// polls, and a poll is no less worth than a first request.
//
//	sighting  when
//	original  not seen in the window
//	poll      seen, and it succeeded; or it is a safe request whose twin still
//	          runs, or which its caller dropped within a second, once
//	retry     seen, and it failed, was refused, ran out of time or was abandoned;
//	          an unsafe request whose twin still runs; a declared attempt above
//	          0; a valid ticket
//	hopeless  seen, and the service gave it the same answer, one that another try
//	          does not change, at least HopelessAfter times in a row
//
// What is settled (it succeeded, got an answer that another try does not change, or
// its caller changed his mind) is remembered for Config.Window, a minute. What is
// not is remembered for Config.FailedWindow, half an hour: it will come again when
// the outage ends, and nobody who waited for that must pass for a newcomer.
//
// An answer that another try does not change is 400, 404, 405, 410, 413, 414,
// 415, 422, 501, whatever the application itself declares so, and a 5xx other
// than 503 from a route on which other requests succeed meanwhile. A 503 says of
// itself that it will pass, and services shed single tenants with it.
//
// [Accusable] says whether a sighting may cost its client anything. What is
// seen under a key that many users share is counted, never held against anyone.
//
// [Answers] is the opt-in short circuit: the last answer of hopeless requests,
// repeated without asking the service.
//
// # Caveats
//
// The window counts from the last thing known of a fingerprint: its latest
// sighting or its outcome, to a quarter of a second, and never longer than set.
//
// A clock that steps back by no more than a window leaves sightings fresh for at
// most two windows; a larger step forgets them. Ticks return after 72 h 49 min:
// a fingerprint that was last seen that long ago, give or take a window, and
// whose slot nobody needed since, is taken for a fresh one. No daily or weekly
// schedule has that period.
//
// Two fingerprints that share a line are one with a probability of 2^-27; with
// the 32 slots that a look-up compares that is below one in four million.
//
// Full lines forget what is settled, and then their oldest sighting. That can only
// miss repeats, and is counted by [Table.Evictions]: the memory of failures grows
// shorter, and no larger.
//
// Route indices have a meaning only within one configuration: for a minute after
// a reload that renumbers routes, the judgement of a 5xx may rest on another
// route's successes.
package repeat
