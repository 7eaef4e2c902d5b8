package records_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/fleet/internal/records"
	"github.com/mcpvisor/mcpvisor/fleet/placement"
)

func TestEncode(t *testing.T) {
	for want, got := range map[string][]byte{
		`{"v":1}`: records.Encode(records.Spec{}, nil),
		`{"v":1,"node":"a","life":"1","epoch":2,"released":true}`: records.Encode(placement.Place{Node: "a", Life: "1", Epoch: 2, Released: true}, nil),
		`{"v":1,"definition":{"a":"<&>"},"generation":3}`:         records.Encode(records.Spec{Definition: []byte(`{ "a": "<&>" }`), Generation: 3}, nil),
		`{"applied":7,"later":[1],"v":1}`:                         records.Encode(records.Generation{Applied: 7}, records.Rest{"later": []byte(`[1]`)}),
		// What the program knows and leaves out is not kept.
		`{"later":true,"v":1}`: records.Encode(records.Spec{}, records.Rest{"later": []byte(`true`)}),
	} {
		require.Equal(t, want, string(got))
	}
}

// TestDecode_rest: fields that the program does not know are kept when it writes the record again.
func TestDecode_rest(t *testing.T) {
	for _, value := range []string{
		`{"v":1,"node":"a","life":"1","epoch":2,"reason":{"why":"<x>"},"zone":9007199254740993}`,
		`{"reason":{"why":"<x>"},"epoch":2,"v":1,"node":"a","life":"1","zone":9007199254740993}`,
	} {
		place, rest, err := records.Decode[placement.Place]([]byte(value))
		require.NoError(t, err)
		require.Equal(t, placement.Place{Node: "a", Life: "1", Epoch: 2}, place)
		require.Len(t, rest, 2)
		place.Epoch, place.Released = 3, true
		require.Equal(t, `{"epoch":3,"life":"1","node":"a","reason":{"why":"<x>"},"released":true,"v":1,"zone":9007199254740993}`,
			string(records.Encode(place, rest)))
	}
	_, rest, err := records.Decode[placement.Place]([]byte(` {"v":1, "node":"a", "life":"1", "epoch":2} `))
	require.NoError(t, err)
	require.Nil(t, rest)
	spec, rest, err := records.Decode[records.Spec]([]byte(`{"v":1,"exclusive":true,"labels":{"a":"b"},"definition":{"x":1},"generation":4}`))
	require.NoError(t, err)
	require.Nil(t, rest)
	require.Equal(t, records.Spec{Spec: placement.Spec{Exclusive: true, Labels: map[string]string{"a": "b"}}, Definition: []byte(`{"x":1}`), Generation: 4}, spec)
}

// TestDecode_refuses: a record that the program may misread is not read.
func TestDecode_refuses(t *testing.T) {
	for value, problem := range map[string]string{
		`{"v":2,"node":"a","life":"1","epoch":2}`:       "has version 2",
		`{"v":1,"v":2,"node":"a","life":"1","epoch":2}`: "has version 2",
		`{"node":"a","life":"1","epoch":2}`:             "has no version",
		`{"v":"1","node":"a","life":"1","epoch":2}`:     `the version of the record is "\"1\""`,
		`{"v":1,"node":7}`:                              "cannot unmarshal number",
		`{"v":1,"node":"a"} x`:                          "invalid character",
		`{"v":1,`:                                       "unexpected end",
		`[]`:                                            "cannot unmarshal array",
		`null`:                                          "has no version",
		``:                                              "unexpected end",
		`{"v":1,"x":"` + strings.Repeat("y", 512<<10): "larger than",
	} {
		place, rest, err := records.Decode[placement.Place]([]byte(value))
		require.ErrorContains(t, err, problem, "%.100s", value)
		require.Zero(t, place)
		require.Nil(t, rest)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"v":1,"node":"a","life":"1","epoch":2,"reason":{"why":"<x>"}}`))
	f.Add([]byte(`{"v":1}`))
	f.Fuzz(func(t *testing.T, value []byte) {
		place, rest, err := records.Decode[placement.Place](value)
		if err != nil {
			return
		}
		again, restAgain, err := records.Decode[placement.Place](records.Encode(place, rest))
		require.NoError(t, err)
		require.Equal(t, place, again)
		require.Len(t, restAgain, len(rest))
	})
}
