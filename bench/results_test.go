package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheckResults(t *testing.T) {
	defer func(r map[string]float64, s string) { results, currentSection = r, s }(results, currentSection)
	results, currentSection = map[string]float64{}, "echo"
	record("64", "mcpvisor", "× go-sdk", 20)
	record("64", "mcpvisor", figureAllocs, 3)
	record("64", "go-sdk", figureAllocs, 50)
	file := filepath.Join(t.TempDir(), "baseline.json")
	if err := saveResults(file); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		figure string
		value  float64
		worse  string
	}{
		{"× go-sdk", 20, ""}, {"× go-sdk", 17.1, ""}, {"× go-sdk", 40, ""}, {"× go-sdk", 16.9, "echo/64/mcpvisor/× go-sdk: 16.90"},
		{figureAllocs, 3.4, ""}, {figureAllocs, 1, ""}, {figureAllocs, 4, "echo/64/mcpvisor/allocs/call: 4.00"},
	} {
		results = map[string]float64{}
		record("64", "mcpvisor", row.figure, row.value)
		err := checkResults(file, 0.15)
		if (err == nil) != (row.worse == "") || err != nil && !strings.Contains(err.Error(), row.worse) {
			t.Errorf("%s %v: %v", row.figure, row.value, err)
		}
	}
	results = map[string]float64{}
	if checkResults(file, 0.15) == nil {
		t.Error("a run without a figure of the baseline passed")
	}
	if os.Remove(file); checkResults(file, 0.15) == nil {
		t.Error("a missing baseline passed")
	}
}
