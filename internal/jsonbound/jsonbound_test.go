package jsonbound_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/internal/jsonbound"
	"github.com/mcpvisor/mcpvisor/test/testutil"
)

func TestCheck_counts(t *testing.T) {
	for text, want := range map[string][2]int{ // values, levels
		`0`:                           {1, 0},
		`"a,b{[]}\"],"`:               {1, 0},
		`[]`:                          {1, 1},
		`{ }`:                         {1, 1},
		`[1]`:                         {2, 1},
		`[1,2,3]`:                     {4, 1},
		`{"a":1,"b":[true,null]}`:     {5, 2},
		`{"a":{"b":{"c":[[],[]]}}}`:   {6, 5},
		" [ [ ] , { \"a\" : [\n] } ]": {4, 3},
	} {
		size, err := jsonbound.Check(t.Context(), []byte(text), jsonbound.Limits{})
		require.NoError(t, err)
		require.Equal(t, want, [2]int{size.Elements, size.Depth}, text)
	}
}

func TestCheck(t *testing.T) {
	many := []byte("[" + strings.Repeat("0,", 20_000) + "0]")
	t.Run("within the limits", func(t *testing.T) {
		_, err := jsonbound.Check(t.Context(), many, jsonbound.Limits{Elements: 20_002, Depth: 1, Bytes: 1 << 20})
		require.NoError(t, err)
	})
	for name, l := range map[string]jsonbound.Limits{
		"one value too many":      {Elements: 20_001},
		"one level too many":      {Depth: 1},
		"one byte too many":       {Bytes: 20_002*32 - 1},
		"all of it and more":      {Elements: 1, Depth: 1, Bytes: 1},
		"exceeded before the end": {Elements: 5000},
		"bytes before the end":    {Bytes: 5000},
	} {
		t.Run(name, func(t *testing.T) {
			text := many
			if l.Depth == 1 && l.Elements == 0 {
				text = []byte("[[1]]")
			}
			_, err := jsonbound.Check(t.Context(), text, l)
			testutil.AsError[*jsonbound.Error](t, err)
			require.Contains(t, err.Error(), "more than ")
		})
	}
	t.Run("context ends", func(t *testing.T) {
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		_, err := jsonbound.Check(ctx, many, jsonbound.Limits{})
		require.ErrorIs(t, err, cause)
	})
	t.Run("invalid JSON", func(t *testing.T) {
		for _, text := range []string{``, `"`, `{`, `]`, `}}}}`, `[[`, `{"a`, `,,,`} {
			_, err := jsonbound.Check(t.Context(), []byte(text), jsonbound.Limits{})
			require.NoError(t, err, text)
		}
	})
}

// The estimate is compared with what encoding/json allocates for the value. An
// estimate that is far too low would make the limit useless, one that is far too high
// would reject harmless text.
func TestCheck_estimate(t *testing.T) {
	const n = 20_000
	for name, entry := range map[string]string{
		"numbers":       `0`,
		"texts":         `"some text that is not too short"`,
		"small objects": `{"a":0}`,
		"empty objects": `{}`,
		"arrays":        `[0]`,
		"rows":          `{"id":12345,"name":"some name","value":3.5,"tags":["a","b"]}`,
		"wide objects":  `{"a":0,"b":1,"c":2,"d":3,"e":4,"f":5,"g":6,"h":7,"i":8,"j":9,"k":10,"l":11}`,
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			for i := range n { // different texts, because the decoder may share equal ones
				b.WriteString(strings.ReplaceAll(entry, "text", fmt.Sprint(1_000_000+i)) + ",")
			}
			text := []byte("[" + b.String() + entry + "]")
			size, err := jsonbound.Check(t.Context(), text, jsonbound.Limits{})
			require.NoError(t, err)
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			var value any
			require.NoError(t, json.Unmarshal(text, &value))
			runtime.GC()
			runtime.ReadMemStats(&after)
			taken := float64(after.HeapAlloc) - float64(before.HeapAlloc)
			runtime.KeepAlive(value)
			t.Logf("estimated %d, taken %.0f", size.Bytes, taken)
			require.Greater(t, float64(size.Bytes), taken/3)
			require.Less(t, float64(size.Bytes), taken*3)
		})
	}
}

func BenchmarkCheck(b *testing.B) {
	text := []byte("[" + strings.Repeat(`{"id":12345,"name":"some name","value":3.5},`, 50_000) + "0]")
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := jsonbound.Check(context.Background(), text, jsonbound.Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}
