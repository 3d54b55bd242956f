// Package keys holds the secrets that several gateways share, and derives from
// them one key for each purpose.
//
// # Basics
//
// A [Ring] is read from a file with one secret a line ([Load], [Parse]) or made
// at random ([Random]). The first secret signs, all of them verify: to rotate,
// put the new secret on the first line, reload every gateway, and remove the old
// line when nothing signed with it is of use any more. [Ring.Derive] gives the
// keys of one purpose; what is signed for one purpose never verifies for another.
//
// # Caveats
//
// During a rotation a gateway that has not been reloaded yet does not know the
// new secret. Add it as the last line everywhere first, and move it to the top
// afterwards, if that short gap matters.
//
// A random ring ends with its process: nothing signed with it outlives a
// restart, and no other gateway honours it.
package keys
