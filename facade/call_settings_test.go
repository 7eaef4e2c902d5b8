package facade_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// TestCallSettings: settings pass through options and back, so that a call can be made elsewhere
// as it was meant. A field that With or Options forgets fails.
func TestCallSettings(t *testing.T) {
	reported, logged := 0, 0
	opts := []facade.CallOption{
		nil, facade.WithTimeout(7 * time.Second), facade.WithWaitReady(), facade.WithoutValidation(),
		facade.WithProgress(func(mcpvisor.Progress) { reported++ }), facade.WithMeta([]byte(`{"a":1,"progressToken":3}`)),
		facade.WithCallHandlers(&facade.CallHandlers{}), facade.WithLogMessages("info", func(mcpvisor.LogMessage) { logged++ }),
		facade.WithRelay(facade.Continuation{RequestState: []byte(`"s"`)}), facade.WithKey("k"), facade.WithClientName("c"),
		facade.WithTaskRelay(&facade.TaskRelay{}), facade.WithoutTasks(),
	}
	first, err := facade.CallSettings{}.With(opts...)
	require.NoError(t, err)
	v := reflect.ValueOf(first)
	for i := range v.NumField() {
		require.False(t, v.Field(i).IsZero(), "%s is lost", v.Type().Field(i).Name)
	}
	require.JSONEq(t, `{"a":1}`, string(first.Meta))
	second, err := facade.CallSettings{}.With(first.Options()...)
	require.NoError(t, err)
	second.Progress(mcpvisor.Progress{})
	second.LogMessages(mcpvisor.LogMessage{})
	require.Equal(t, []int{1, 1}, []int{reported, logged})
	first.Progress, second.Progress, first.LogMessages, second.LogMessages = nil, nil, nil, nil
	require.Equal(t, first, second)

	kept, err := facade.CallSettings{}.With(facade.WithMeta([]byte(`{"a":1,"io.modelcontextprotocol/clientCapabilities":{"roots":{}}}`)))
	require.NoError(t, err)
	require.JSONEq(t, `{"a":1,"io.modelcontextprotocol/clientCapabilities":{"roots":{}}}`, string(kept.Meta))
	_, err = facade.CallSettings{}.With(facade.WithMeta([]byte(`[]`)))
	require.Error(t, err)
	off, err := facade.CallSettings{WaitReady: true}.With(facade.WithoutWaitReady())
	require.NoError(t, err)
	require.False(t, off.WaitReady)
}

// TestWithResultRoom: a result that is not released keeps further large results out of memory.
func TestWithResultRoom(t *testing.T) {
	c := newClient(t)
	web := mcptest.NewHTTP(mcptest.Script{})
	t.Cleanup(web.Close)
	const size = 200 << 10
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", HTTP: &mcpvisor.HTTP{URL: web.URL},
		Limits: mcpvisor.Limits{MaxBufferBytes: 3 * size / 2}}))
	big := func(ctx context.Context, room *facade.ResultRoom) error {
		_, err := c.CallToolRaw(ctx, "s/big", json.RawMessage(fmt.Sprintf(`{"bytes":%d}`, size)), facade.WithResultRoom(room))
		return err
	}
	// The first may exceed the limit if it finds no room, so the third one waits.
	var rooms [3]facade.ResultRoom
	require.NoError(t, big(t.Context(), &rooms[0]))
	require.NoError(t, big(t.Context(), &rooms[1]))
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, big(short, &rooms[2]), mcpvisor.ErrCanceled)
	rooms[2].Release()
	ended := make(chan error, 1)
	go func() { ended <- big(t.Context(), &rooms[2]) }()
	rooms[0].Release()
	rooms[0].Release()
	rooms[1].Release()
	require.NoError(t, <-ended)
	rooms[2].Release()
}
