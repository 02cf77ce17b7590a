// A run of Playwright as JUnit XML, which CI systems show as tests: testsuites > testsuite, one for each
// project and file, > testcase with failure, error or skipped.
import type { PlaywrightReport, TestAttempt, TestReport } from './report.ts'

/** The report as XML. Tests that were tried again count as their last attempt does. */
export function playwrightJunit(report: PlaywrightReport): string {
  const groups = Map.groupBy(report.tests, ({ project, file }) => JSON.stringify([project, file]))
  const suites = [...groups.values()].map(suiteOf).join('')
  const { stats } = report
  const head = xmlAttributes({
    tests: report.tests.length,
    failures: stats.unexpected,
    errors: stats.unfinished,
    skipped: stats.skipped,
    time: seconds(report.durationMs ?? 0),
  })
  return `<?xml version="1.0" encoding="UTF-8"?>\n<testsuites ${head}>\n${suites}</testsuites>\n`
}

function suiteOf(tests: readonly TestReport[]): string {
  const count = (outcome: string | undefined) =>
    tests.filter((one) => one.outcome === outcome).length
  const [first] = tests
  const head = xmlAttributes({
    name: first?.file ?? '',
    hostname: first?.project ?? '',
    tests: tests.length,
    failures: count('unexpected'),
    errors: count(undefined),
    skipped: count('skipped'),
    time: seconds(tests.reduce((sum, one) => sum + msOf(one), 0)),
  })
  return ` <testsuite ${head}>\n${tests.map(caseOf).join('')} </testsuite>\n`
}

function caseOf(test: TestReport): string {
  const head = xmlAttributes({
    name: test.title,
    classname: test.file,
    time: seconds(msOf(test)),
  })
  return `  <testcase ${head}>\n${inner(test)}  </testcase>\n`
}

function inner(test: TestReport): string {
  const last = test.attempts.at(-1)
  const output = test.attempts.map((one) => one.output).join('')
  const out = output === '' ? '' : `   <system-out>${escapeXml(output)}</system-out>\n`
  switch (test.outcome) {
    case 'skipped':
      return '   <skipped/>\n'
    case 'unexpected':
      return `   ${failureOf(last)}\n${out}`
    case undefined:
      return `   <error message="the run ended before the test did"/>\n${out}`
    case 'expected':
    case 'flaky':
    default:
      return out
  }
}

function failureOf(attempt: TestAttempt | undefined): string {
  const errors = attempt?.errors ?? []
  const text = errors.map(({ message, stack }) => stack ?? message).join('\n\n')
  const line = errors[0]?.message.split('\n')[0] ?? attempt?.status ?? 'failed'
  return `<failure ${xmlAttributes({ message: line, type: attempt?.status ?? 'failed' })}>${escapeXml(text)}</failure>`
}

function msOf(test: TestReport): number {
  return test.attempts.reduce((sum, one) => sum + one.durationMs, 0)
}

/** As JUnit writes a duration. */
export function seconds(ms: number): string {
  return (ms / 1000).toFixed(3)
}

/** Escapes markup and replaces what XML 1.0 (section 2.2) cannot carry at all. */
export function escapeXml(text: string): string {
  return (
    text
      .toWellFormed()
      // oxlint-disable-next-line no-control-regex -- what it takes out are control characters
      .replaceAll(/[\u0000-\u0008\u000B\u000C\u000E-\u001F\uFFFE\uFFFF]/g, '\uFFFD')
      .replaceAll('&', '&amp;')
      .replaceAll('<', '&lt;')
      .replaceAll('>', '&gt;')
      .replaceAll('"', '&quot;')
  )
}

/** Attributes of an element; a line break in a value stays one (section 3.3.3). */
export function xmlAttributes(values: Record<string, string | number>): string {
  return Object.entries(values)
    .map(([name, value]) => `${name}="${escapeXml(String(value)).replaceAll('\n', '&#10;')}"`)
    .join(' ')
}
