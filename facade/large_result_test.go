package facade

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/actors"
	"github.com/mcpvisor/mcpvisor/internal/textresult"
)

func joinTools(whole, part *mcp.CallToolResult) {
	whole.Content = append(whole.Content, part.Content...)
}

// Decoding in parts gives the same results and errors as the go-sdk does for the whole.
func TestDecodeParts_agrees_with_the_sdk(t *testing.T) {
	texts := []string{
		`{"content":[{"type":"text","text":"x"},{"type":"image","data":"aGk=","mimeType":"image/png"}],"_meta":{"a":[1]},"isError":true}`,
		`{"\u0063ontent":[{"type":"text","text":"x"}],"structuredContent":[1,{"a":null}]}`,
		`{"content":1,"content":[{"type":"text","text":"x"}]}`,
		`{"content":null}`, `{"content":[null]}`, `{"content":"x"}`, `{"content":[],"_meta":1}`, `{"content":[],"_meta":null,"structuredContent":null}`,
		`{"content":[{"type":"hologram"}]}`, `{"content":[{"type":"resource","resource":null}]}`, `{}`, `{"content":{}}`,
		`{"content":[` + strings.Repeat(`{"type":"text","text":"`+strings.Repeat("y", 1000)+`"} , `, 2000) + `{"type":"text","text":"z"}]}`,
	}
	texts = append(texts, toolResults...)
	for _, raw := range texts {
		t.Run(raw[:min(len(raw), 60)], func(t *testing.T) {
			whole := new(mcp.CallToolResult)
			wrong := errors.Join(checkResult([]byte(raw)), whole.UnmarshalJSON([]byte(raw)))
			if wrong == nil {
				wrong = checkNoNil(whole)
			}
			got, err := decodeParts(t.Context(), []byte(raw), "content", joinTools)
			require.Equal(t, wrong == nil, err == nil, "%v, not %v", err, wrong)
			if err == nil {
				require.Equal(t, whole, got)
			}
		})
	}
}

// endsAfter is a context that ends after n calls of Err.
type endsAfter struct {
	context.Context
	n int
}

func (c *endsAfter) Err() error {
	if c.n--; c.n < 0 {
		return context.Canceled
	}
	return nil
}

// Decoding ends with its context.
func TestDecodeToolResult_ends_with_its_context(t *testing.T) {
	const n = 100_000
	for name, raw := range map[string]string{
		"text":               `{"content":[` + strings.Repeat(`{"type":"text","text":""},`, n) + `{"type":"text","text":""}]}`,
		"images":             `{"content":[` + strings.Repeat(`{"type":"image","data":"","mimeType":""},`, n) + `{"type":"text","text":""}]}`,
		"structured content": `{"content":[],"structuredContent":[` + strings.Repeat(`{"a":0},`, n) + `0]}`,
		"metadata":           `{"content":[],"_meta":{"a":[` + strings.Repeat(`{"a":0},`, n) + `0]}}`,
	} {
		t.Run(name+"/ended by the caller", func(t *testing.T) {
			ctx := &endsAfter{context.Background(), 3}
			if textresult.Decode(ctx, []byte(raw)) == nil {
				_, err := decodeParts(ctx, []byte(raw), "content", joinTools)
				require.ErrorIs(t, err, context.Canceled)
				return
			}
			require.Fail(t, "it was decoded to its end")
		})
		t.Run(name+"/ended by the clock", func(t *testing.T) {
			view := &actors.View{Spec: &mcpvisor.ServerSpec{Timeouts: mcpvisor.Timeouts{Call: time.Nanosecond, CallTotal: time.Nanosecond}}}
			_, err := decodeToolResult(context.Background(), &response{raw: json.RawMessage(raw), view: view, began: time.Now().Add(-time.Hour)})
			require.ErrorIs(t, err, mcpvisor.ErrTimeout)
			var e *mcpvisor.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, mcpvisor.OutcomeAnswered, e.Outcome)
		})
	}
}

// The timeout of a call, and so of decoding, begins after the queue; only CallTotal counts both.
func TestDecodeContext_after_a_queue(t *testing.T) {
	began := time.Now().Add(-50 * time.Second)
	for want, row := range map[time.Duration]mcpvisor.Timeouts{
		100 * time.Second: {Call: time.Minute, CallTotal: time.Hour},
		90 * time.Second:  {Call: time.Minute, CallTotal: 90 * time.Second},
	} {
		r := response{view: &actors.View{Spec: &mcpvisor.ServerSpec{Timeouts: row}}, began: began, queued: 40 * time.Second}
		ctx, cancel := r.decodeContext(context.Background())
		defer cancel()
		deadline, _ := ctx.Deadline()
		require.Equal(t, want, deadline.Sub(began))
	}
}

// ended is a context that has ended, though it did not seem so at first.
type ended struct{ *endsAfter }

func (ended) Done() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// endsWhenAwaited is a context that ends when somebody waits for its end.
type endsWhenAwaited struct{ *endsAfter }

func (c endsWhenAwaited) Done() <-chan struct{} {
	c.n = 0
	return ended(c).Done()
}

func TestDecodePart(t *testing.T) {
	part := func(values int) []byte {
		return []byte(`{"content":[{"type":"text","text":"","_meta":{"a":[` + strings.Repeat("0,", values) + `0]}}]}`)
	}
	t.Run("ended while it is decoded", func(t *testing.T) {
		_, err := decodePart[mcp.CallToolResult](&endsAfter{context.Background(), 1}, part(10))
		require.ErrorIs(t, err, context.Canceled)
	})
	t.Run("many values do not hold the caller", func(t *testing.T) {
		_, err := decodePart[mcp.CallToolResult](endsWhenAwaited{&endsAfter{context.Background(), 1000}}, part(maxInlineElements))
		require.ErrorIs(t, err, context.Canceled)
		_, err = decodePart[mcp.CallToolResult](endsWhenAwaited{&endsAfter{context.Background(), 1000}}, part(maxInlineElements-10))
		require.NoError(t, err, "a few are decoded without another goroutine")
	})
	t.Run("ended while the values beside the list are decoded", func(t *testing.T) {
		_, err := decodeParts(&endsAfter{context.Background(), 2}, []byte(`{"content":[],"structuredContent":[0]}`), "content", joinTools)
		require.ErrorIs(t, err, context.Canceled)
	})
	t.Run("a long text, ended by the caller", func(t *testing.T) {
		text := `{"content":[{"type":"image","mimeType":"a","data":"` + strings.Repeat("QUJD", 2<<20) + `"}]}`
		ctx := ended{&endsAfter{context.Background(), 1}}
		_, err := decodePart[mcp.CallToolResult](ctx, []byte(text))
		require.ErrorIs(t, err, context.Canceled)
	})
}

// The limits of results apply before anything is decoded.
func TestDecodeToolResult_limits(t *testing.T) {
	const n = 1 << 20
	decode := func(raw string, limits mcpvisor.Limits) (*mcp.CallToolResult, error) {
		spec := mcpvisor.ServerSpec{Limits: limits}.WithDefaults()
		return decodeToolResult(context.Background(), &response{raw: json.RawMessage(raw), view: &actors.View{Spec: &spec}, began: time.Now()})
	}
	for name, row := range map[string]struct{ raw, want string }{
		"too many blocks":           {`{"content":[` + strings.Repeat(`{"type":"text","text":""},`, n/3) + `{"type":"text","text":""}]}`, "Limits.MaxDecodedBytes"},
		"too many numbers":          {`{"content":[],"structuredContent":[` + strings.Repeat(`0,`, n) + `0]}`, "Limits.MaxElements"},
		"too much metadata":         {`{"content":[],"_meta":{"a":[` + strings.Repeat(`[],`, n) + `0]}}`, "Limits.MaxElements"},
		"too much memory":           {`{"content":[],"structuredContent":[` + strings.Repeat(`{"a":0},`, n/2-10) + `0]}`, "Limits.MaxDecodedBytes"},
		"too much in one block":     {`{"content":[{"type":"text","text":"","_meta":{"a":[` + strings.Repeat(`0,`, maxPartElements) + `0]}}]}`, "one part"},
		"too much beside the lists": {`{"content":[],"inputRequests":{"a":[` + strings.Repeat(`0,`, maxPartElements) + `0]}}`, "one part"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := decode(row.raw, mcpvisor.Limits{MaxDecodedBytes: 128 << 20})
			require.ErrorIs(t, err, mcpvisor.ErrProtocol)
			require.ErrorContains(t, err, row.want)
			require.ErrorContains(t, err, "CallToolRaw returns it undecoded")
		})
	}
	t.Run("limits raised", func(t *testing.T) {
		_, err := decode(`{"content":[],"structuredContent":[`+strings.Repeat(`0,`, n)+`0]}`, mcpvisor.Limits{MaxElements: 2 * n})
		require.NoError(t, err)
	})
	for _, size := range []int{1 << 10, 1 << 20, 6 << 20} {
		t.Run(fmt.Sprintf("one image of %d bytes", size), func(t *testing.T) {
			got, err := decode(`{"content":[{"type":"image","mimeType":"image/png","data":"`+strings.Repeat("QUJD", size/3)+`"}]}`, mcpvisor.Limits{})
			require.NoError(t, err)
			require.Len(t, got.Content[0].(*mcp.ImageContent).Data, size/3*3)
		})
	}
}

var toolResults = []string{
	`{"content":[{"type":"text","text":"hello"}]}`,
	`{"content":[{"text":"a\n\"b\" \u00e9 \ud83d\ude00","type":"text"}],"isError":true}`,
	`{"content":[]}`,
	` { "content" : [ {"type":"text","text":""} , {"type":"text","text":"b"} ] , "x":1 } `,
	`{"content":[{"type":"text","text":"x"}],"structuredContent":{"a":[1,2.5,null]}}`,
	`{"structuredContent":null,"content":[],"isError":false,"_meta":{"k":"v"}}`,
	`{"content":[],"resultType":"complete"}`,
	`{"content":[],"resultType":"input_required","inputRequests":{}}`,
	`{"content":[{"type":"image","data":"aGk=","mimeType":"image/png"}]}`,
	`{"content":[{"type":"text","text":"x","annotations":{"priority":1}}]}`,
	`{"content":[{"type":"text","text":"x"}],"content":[]}`,
	`{"content":[{"type":"text","text":"x","text":"y"}]}`,
	`{"content":[],"isError":true,"isError":false}`,
	`{"content":[],"inputRequests":{}}`,
	`{"content":[],"requestState":"x"}`,
	`{"content":null}`,
	`{}`,
	`{"Content":[]}`,
}
