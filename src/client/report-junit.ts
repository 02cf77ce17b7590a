// The outcome of `vedette check` as JUnit XML, which CI systems show as tests. Follows the schema that
// Jenkins and GitLab read: testsuites > testsuite > testcase with failure, error or skipped.
import type { Result } from '../contract/result.ts'
import { escapeXml, seconds, xmlAttributes } from '../scripts/playwright/junit.ts'

/** One test case per result; failed becomes a failure, errored an error, cancelled and missed are skipped. */
export function junitOf(results: readonly Result[]): string {
  const count = (...verdicts: string[]) =>
    results.filter((one) => verdicts.includes(one.verdict)).length
  const totals = xmlAttributes({
    name: 'vedette check',
    tests: results.length,
    failures: count('failed'),
    errors: count('errored'),
    skipped: count('cancelled', 'missed'),
    time: seconds(results.reduce((sum, one) => sum + one.durationMs, 0)),
  })
  const cases = results.map(testCase).join('')
  return `<?xml version="1.0" encoding="UTF-8"?>\n<testsuites ${totals}>\n <testsuite ${totals}>\n${cases} </testsuite>\n</testsuites>\n`
}

function testCase(result: Result): string {
  const head = xmlAttributes({
    classname: `${result.location}.${result.checkType}`,
    name: result.monitorName,
    time: seconds(result.durationMs),
  })
  const inner = outcome(result)
  return inner === '' ? `  <testcase ${head}/>\n` : `  <testcase ${head}>\n${inner}  </testcase>\n`
}

function outcome(result: Result): string {
  const { verdict, failures } = result
  if (verdict === 'passed') return ''
  if (verdict === 'degraded') return '   <system-out>degraded</system-out>\n'
  if (verdict === 'cancelled' || verdict === 'missed') {
    return `   <skipped ${xmlAttributes({ message: result.missedReason ?? verdict })}/>\n`
  }
  const element = verdict === 'failed' ? 'failure' : 'error'
  const first = failures[0]
  const text = failures.map((one) => `${one.code}: ${one.message}`).join('\n')
  const head = xmlAttributes({ type: first?.code ?? verdict, message: first?.message ?? verdict })
  return `   <${element} ${head}>${escapeXml(text)}</${element}>\n`
}
