package jsonrpc

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/transport"
)

func TestNoticeBroad(t *testing.T) {
	n := new(Notifications)
	n.OnNotice(func(transport.Notice) { t.Error("told") })
	long := []byte(`{"notifications":{"resourceSubscriptions":[""` + strings.Repeat(`,""`, 400_000) + `]}}`)
	require.Equal(t, Malformed, n.Handle([]byte(`"notifications/subscriptions/acknowledged"`), long))
}
