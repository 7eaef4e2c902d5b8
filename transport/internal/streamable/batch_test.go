package streamable

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBatch_noAllocations(t *testing.T) {
	const items = 1 << 16
	batch := []byte("[" + strings.Repeat("1,", items-1) + "1]")
	nested := []byte("[" + strings.Repeat("[1],", items-1) + "[1]]")
	r := &receiver{exchanger: &exchanger{}}
	require.LessOrEqual(t, testing.AllocsPerRun(1, func() {
		_, found, httpErr := r.handleMessage(batch, 1, true)
		require.False(t, found)
		require.Nil(t, httpErr)
		_, _, _ = r.handleMessage(nested, 1, true)
	}), 10.0)
	require.EqualValues(t, 2*2*items, r.discarded.Malformed.Load())
}

// An error without an id answers a call only if it is the only message of the batch.
func TestBatch(t *testing.T) {
	const noID = `{"jsonrpc":"2.0","error":{"code":1,"message":"m"}}`
	for name, c := range map[string]struct {
		text          string
		result, error string
		discarded     uint64 // malformed and unmatched messages
	}{
		"answer":          {`[{"id":1,"result":"a"}]`, `"a"`, "", 0},
		"among others":    {` [ {"id":2,"result":"b"} , 7, {"id":1,"result":"a"} ] `, `"a"`, "", 2},
		"nested":          {`[[{"id":1,"result":"a"}]]`, "", "", 1},
		"noID":            {`[` + noID + `]`, "", `{"code":1,"message":"m"}`, 0},
		"noID and others": {`[` + noID + `,{"id":1,"result":"a"}]`, `"a"`, "", 1},
		"empty":           {`[]`, "", "", 0},
		"cut":             {`[{"id":1,"result":"a"}`, "", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := &receiver{exchanger: &exchanger{}}
			got, found, httpErr := r.handleMessage([]byte(strings.TrimSpace(c.text)), 1, true)
			require.Nil(t, httpErr)
			require.Equal(t, c.result+c.error != "", found)
			require.Equal(t, c.result, string(got.result))
			require.Equal(t, c.error, string(got.errorMember))
			require.Equal(t, c.discarded, r.discarded.Malformed.Load()+r.discarded.Unmatched.Load())
		})
	}
}
