// Package messages is not part of the stable API. It holds what the actors of this
// module send each other. Only package actors imports it.
//
// A message about a registration, an incarnation or a timer carries its number (Gen,
// Epoch, Token), so that the receiver can drop what is stale. A Reply channel has room
// for one answer and receives at most one; the goroutine that waits on it also waits on
// its own context and on the end of the client.
//
//	message           from → to                  reply  when
//	Register          client → manager           error  a server is added or replaced
//	RegisterAll       client → manager           error  several are, in their order
//	Unregister        client → manager           error  a server is removed
//	UnregisterAll     client → manager           error  several are, in their order
//	Operate           client → manager           error  a server is to restart, stop, start or wake
//	SetGroups         client → manager           error  the groups of the client are set
//	Fence             client → manager           error  a server must end at once
//	CloseAll          client → manager           –      the client closes
//	Start             manager → servers          –      a registration was accepted
//	Stop              manager → supervisor       –      Unregister, Close
//	FenceServer       manager → supervisor       –      Fence
//	OperateServer     manager → supervisor       –      Operate; groups wake what a member waits for
//	Rest              manager → supervisor       –      nothing uses the server
//	ReconcileRequest  servers → supervisor       –      a new manager rebuilds its state
//	Opened            port → supervisor          –      session connected, negotiated
//	Discover          supervisor → port          –      list what the server offers
//	Discovered        port → supervisor          –      the catalog is complete
//	Failed            port → supervisor          –      opening or discovery failed
//	Died              the session → supervisor   –      the session ended by itself
//	Released          the session → supervisor   –      everything it held is released
//	TimerDue          timer → supervisor         –      retry, park or stability timer
//	EndSession        supervisor → port          –      end the session, with a cause
//	SessionReady      supervisor → port          –      the server or standby is ready
//	ProbeDue          timer → port               –      the server may be silent
//	Probed            probe → port               –      a probe has ended
//
// Messages with types of package actors are defined there, beside the component that
// handles them: report, supervisorStarted, supervisorEnded, reconcileReply, groupReport, treeRequest and restRequest
// (inbox of the manager), setTree, memberReport and groupEffect (to groups), groupInput (to a group), joinGroup,
// leaveGroup, groupOrder and idleDue (to a supervisor), reconcileRequest and childReleased (to servers), standbyDue, drainEnded and catalogRefreshed (to a
// supervisor), and what a port sends itself about lists and subscriptions.
package messages
