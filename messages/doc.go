// Package messages is the vocabulary of mcpvisor: the values that users see
// (specifications, names, catalogs, status, events, errors) and the letters
// that the actors exchange. It holds no behaviour beyond what a value can
// answer about itself.
//
// Every asynchronous letter names the registration (gen), the incarnation
// (epoch) or the timer (token) that it belongs to, so that its receiver can
// tell and drop what is stale. No letter is printed by the dead-letter log:
// specifications carry secrets.
//
//	message      from → to                reply      when
//	Register     client → manager         error      a server is added
//	Unregister   client → manager         error      a server is removed
//	Restart      client → manager         error      a fresh start is asked for
//	CloseAll     client → manager         –          the client closes
//	Start        manager → servers        –          a registration was accepted
//	Stop         manager → supervisor     –          unregister, close
//	Revive       manager → supervisor     –          restart
//	Report       supervisor → manager     –          anything visible changed
//	ReportAgain  manager → supervisor     –          a new manager rebuilds its registries
//	Opened       port → supervisor        –          session connected, negotiated
//	Discover     supervisor → port        –          list what the server offers
//	Discovered   port → supervisor        –          catalog complete
//	Failed       port → supervisor        –          open or discovery failed
//	Died         port → supervisor        –          the session ended by itself
//	Released     port → supervisor        –          everything it held is reaped
//	TimerDue     timer → supervisor       –          retry, park or stability
//	Reap         supervisor → port        –          end the session, with a cause
//	Watchdog     supervisor → port        –          the server is ready: probe it
//	ProbeDue     timer → port             –          the server has been silent
//	Probed       probe → port             –          a probe ended
package messages
