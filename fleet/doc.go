// Package fleet is not part of the stable API. It runs one catalog of MCP servers on several
// machines: each server on one of them, those that are exclusive never on two.
//
//	node, err := fleet.Join(ctx, fleet.Config{Store: etcd, Identity: identity, Listener: listener})
//	if err != nil {
//		return err
//	}
//	defer node.Leave(ctx)
//	_, err = node.Apply(ctx, servers)
//	result, err := node.CallTool(ctx, "browser/open", args)
//
// # How it works
//
// A [Node] has an ordinary facade.Client, in which all servers of the fleet are registered. What
// differs is the session: at each start of a server, dialer.go asks routes.go where the server is.
//
//   - Here: the session of its transport (local.go), for an exclusive server under the guard of the
//     node (internal/guards).
//   - On another node: a session that answers lists from the catalog of the owner, and passes calls
//     on over package peer (remote.go, peers.go, catalogs.go).
//   - Nowhere: a session that waits.
//
// When the place of a server changes, its session ends, and the next one goes the new way. So
// everything that takes a facade.Client takes that of a node: web, gateway, telemetry, adapters.
//
// Package fleet/internal/protocol decides with the store where each server is; node.go carries that
// out. docs/fleet.md of the repository has the design, what is promised, and what is not.
//
// This package is large because the node, its routes and the three kinds of sessions share the place
// of each server and the order of its changes.
package fleet
