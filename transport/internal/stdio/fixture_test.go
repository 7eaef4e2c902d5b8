package stdio

import (
	"testing"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/inbound"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
	"github.com/rs/zerolog"
)

// newPartner makes a partner: the server at the other end of a session, which the test
// plays.
func newPartner(t *testing.T, modern bool) *transporttest.Partner {
	return transporttest.NewPartner(t, modern, NewDialer)
}

// dialPipes makes the dialer of a specification.
func dialPipes(spec mcpvisor.ServerSpec, opts transport.Options) (transport.Dialer, error) {
	return NewDialer(spec, opts), nil
}

// newPipeHandler makes the handler that serves the requests of a server.
func newPipeHandler() *inbound.Handler {
	return inbound.NewHandlerPool("s", transport.Options{Handlers: transport.Handlers{ElicitForm: transporttest.AcceptAtOnce}, Logger: zerolog.Nop()}).NewHandler(jsonrpc.NewLifetime())
}
