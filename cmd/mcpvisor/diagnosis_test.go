package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/messages"
)

func TestDiagnose_stray_output(t *testing.T) {
	d := diagnose(messages.ServerStatus{Name: "s", Transport: "stdio", Session: &messages.SessionInfo{
		StrayOutput: messages.StrayOutput{Text: "Ok to proceed? (y)", Reason: "it asks a question"}}}, messages.ServerSpec{}, 0)
	require.Contains(t, d.Warnings, `its stdout says "Ok to proceed? (y)": it asks a question`)
}
