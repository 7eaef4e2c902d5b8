package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/facade"
)

func TestDiagnose_stray_output(t *testing.T) {
	d := diagnose(facade.ServerStatus{Name: "s", Transport: "stdio", Session: &facade.SessionInfo{
		StrayOutput: facade.StrayOutput{Text: "Ok to proceed? (y)", Reason: "it asks a question"}}}, facade.ServerSpec{}, 0)
	require.Contains(t, d.Warnings, `its stdout says "Ok to proceed? (y)": it asks a question`)
}
