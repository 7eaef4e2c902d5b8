// Package fleettest is not part of the stable API. It runs fleets of real processes for tests: etcd,
// nodes, servers, and the links between them, which can be cut. Everything leaves evidence in
// files, and [Evidence.Check] finds what must not have happened.
//
//	etcd members       child processes; killed and started again ([Fleet.Etcd])
//	links              proxies of which each direction can be a black hole: bytes are kept, and
//	                   nothing is reset ([Proxy])
//	nodes              the test binary in another role, which obeys lines of its stdin ([Node])
//	servers            the test binary in a third role. They ignore the end of stdin and polite
//	                   signals; an exclusive one writes a mark every 25 ms, and each writes every
//	                   call that it executes ([Life])
//	calls              each node writes a call before it begins and after it has ended ([Call])
//
// All times are those of package boottime, which the processes of a machine share. TestMain calls
// [Main] first. The tests of this package show the acceptance lines of docs/fleet.md.
package fleettest
