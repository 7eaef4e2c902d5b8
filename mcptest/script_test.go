package mcptest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestScript_JSON_round_trip(t *testing.T) {
	text := rapid.StringMatching(`[ -~]{0,8}`)
	size := rapid.IntRange(0, 1000)
	span := rapid.Custom(func(t *rapid.T) time.Duration {
		return time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "span"))
	})
	fault := rapid.Custom(func(t *rapid.T) Fault {
		return Fault{
			At: rapid.SampledFrom(stages).Draw(t, "at"), Do: rapid.SampledFrom(actions).Draw(t, "do"),
			Method: text.Draw(t, "method"), Tool: text.Draw(t, "tool"), Text: text.Draw(t, "text"),
			Signal: text.Draw(t, "signal"), Nth: size.Draw(t, "nth"), Code: size.Draw(t, "code"),
			Count: size.Draw(t, "count"), Bytes: size.Draw(t, "bytes"), Delay: span.Draw(t, "delay"),
			Starts: rapid.SliceOfN(size, 1, 3).Draw(t, "starts"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		want := Script{
			Name: text.Draw(t, "name"), ExtraTools: size.Draw(t, "extra"), PageSize: size.Draw(t, "page"),
			StartDelay: span.Draw(t, "delay"), NoPrompts: rapid.Bool().Draw(t, "no prompts"),
			Versions:  rapid.SliceOfN(rapid.SampledFrom(allVersions()), 1, 3).Draw(t, "versions"),
			Faults:    rapid.SliceOfN(fault, 1, 3).Draw(t, "faults"),
			Resources: []ResourceDef{{URI: text.Draw(t, "uri"), Blob: []byte(text.Draw(t, "blob") + "x")}},
		}
		data, err := json.Marshal(want)
		require.NoError(t, err)
		var got Script
		require.NoError(t, json.Unmarshal(data, &got))
		require.Equal(t, want, got)
	})
}

func TestScript_JSON_durations(t *testing.T) {
	var s Script
	require.NoError(t, json.Unmarshal([]byte(`{"startDelay": 250, "faults": [{"at": "call", "do": "delay", "delay": "1m30s"}]}`), &s))
	require.Equal(t, 250*time.Millisecond, s.StartDelay)
	require.Equal(t, 90*time.Second, s.Faults[0].Delay)
	require.Error(t, json.Unmarshal([]byte(`{"startDelay": "soon"}`), &s))
	data, err := json.Marshal(s)
	require.NoError(t, err)
	require.Contains(t, string(data), `"delay":"1m30s"`)
	require.Contains(t, string(data), `"startDelay":"250ms"`)
}

func TestScript_Validate(t *testing.T) {
	require.NoError(t, Script{}.Validate())
	for name, s := range map[string]Script{
		"version":             {Versions: []string{"2020-01-01"}},
		"negative":            {PageSize: -1},
		"behaviour":           {Tools: []ToolDef{{Name: "x", As: "nonesuch"}}},
		"raw JSON":            {Tools: []ToolDef{{Name: "x", InputSchema: json.RawMessage(`{`)}}},
		"bad entry":           one(Fault{At: StageList, Do: ActionBadTool, Text: "{"}),
		"stage":               one(Fault{At: "sometime", Do: ActionExit}),
		"action":              one(Fault{At: StageCall, Do: "misbehave"}),
		"malformation":        one(Fault{At: StageCall, Do: ActionMalformed, Text: "odd"}),
		"hang at start":       one(Fault{At: StageStart, Do: ActionHang}),
		"version at a call":   one(Fault{At: StageCall, Do: ActionRefuseVersion}),
		"cursor at a call":    one(Fault{At: StageCall, Do: ActionRepeatCursor}),
		"negative fault":      one(Fault{At: StageCall, Do: ActionDelay, Delay: -1}),
		"half line at a ping": one(Fault{At: StageAfter, Do: ActionHalfLine}),
	} {
		require.ErrorIs(t, s.Validate(), errScript, name)
		require.Panics(t, func() { InMemory(s) }, name)
		require.Panics(t, func() { Stdio(s) }, name)
	}
}

func TestStdio_panics_on_Starts_without_state_dir(t *testing.T) {
	s := one(Fault{At: StageStart, Do: ActionExit, Starts: []int{2}})
	require.NotPanics(t, func() { InMemory(s) })
	require.PanicsWithError(t, "mcptest script: fault 0 happens in the starts [2], which a process cannot count; set StateDir to a directory such as t.TempDir()",
		func() { Stdio(s) })
	s.StateDir = t.TempDir()
	require.NotPanics(t, func() { Stdio(s) })
}
