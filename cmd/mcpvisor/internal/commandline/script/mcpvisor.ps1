# Completion of mcpvisor in PowerShell. In $PROFILE: mcpvisor completion powershell | Out-String | Invoke-Expression
Register-ArgumentCompleter -Native -CommandName mcpvisor -ScriptBlock {
	param($word, $ast, $cursor)
	$words = @($ast.CommandElements | Where-Object { $_.Extent.StartOffset -lt $cursor } | ForEach-Object {
		if ($_ -is [System.Management.Automation.Language.StringConstantExpressionAst]) { $_.Value } else { $_.Extent.Text }
	})
	$program, $words = $words
	$words = @($words)
	if ($word -eq '') {
		# Before 7.3 PowerShell drops an empty argument of a program.
		$words += if ($PSVersionTable.PSVersion -lt [version]'7.3') { '""' } else { '' }
	}
	foreach ($line in @(& $program __complete words @words 2>$null)) {
		$value, $about = $line -split "`t", 2
		if ($value -eq ':files') { return }
		if (-not $about) { $about = $value }
		$text = if ($value -match '[@,%]') { "'$value'" } else { $value }
		[System.Management.Automation.CompletionResult]::new($text, $value, 'ParameterValue', $about)
	}
}
