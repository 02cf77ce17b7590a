// A report that is too large or unreadable is left out and named, and ends nothing else.
import { execFile } from 'node:child_process'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { createScrubber } from '../../src/agent/redaction/scrub.ts'
import { PlaywrightReportBuilder } from '../../src/scripts/playwright/report.ts'
import { attachSuiteFiles } from '../../src/suites/files.ts'
import { AS_NOBODY } from '../support/as-nobody.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const SOURCES = join(import.meta.dirname, '../../src')
const PROGRAM = `import { mkdirSync, mkdtempSync, truncateSync, writeFileSync, rmSync } from 'node:fs'
import { basename } from 'node:path'
import { attachSuiteFiles } from '${SOURCES}/suites/files.ts'
import { PlaywrightReportBuilder } from '${SOURCES}/scripts/playwright/report.ts'
const folder = mkdtempSync('/tmp/vedette-report-')
const htmlFolder = folder + '/html'
mkdirSync(htmlFolder)
writeFileSync(htmlFolder + '/index.html', 'report')
if (process.argv[1] === 'closed') writeFileSync(htmlFolder + '/closed.html', '', { mode: 0 })
else if (process.argv[1] === 'large') truncateSync(htmlFolder + '/index.html', 1e9)
else writeFileSync(htmlFolder + '/..\\\\b.html', '')
const attached = []
const notes = await attachSuiteFiles({
  folder, htmlFolder, facts: {}, report: new PlaywrightReportBuilder().report(),
  context: { attach: (path) => attached.push(basename(path)), signal: new AbortController().signal },
})
rmSync(folder, { recursive: true })
console.log(JSON.stringify({ notes, attached }))`
/** Root may read everything. */
const asNobody = process.getuid?.() === 0 ? AS_NOBODY : []

test.each([
  ['a file that nobody may read', 'closed', 'EACCES'],
  ['a name that no zip may have', 'named', 'invalid'],
  ['too many bytes', 'large', 'left out.* 1000000000 bytes in 1 files'],
])('a report with %s is left out', async (_, which, why) => {
  const node = [process.execPath, '--input-type=module', '-e', PROGRAM, which]
  const [command = '', ...args] = [...asNobody, ...node]
  const { stdout } = await promisify(execFile)(command, args, { cwd: '/' })
  expect(JSON.parse(stdout)).toEqual({
    notes: [expect.stringMatching(new RegExp(`^playwright-report\\.zip\\b.*${why}`))],
    attached: ['results.json', 'junit.xml'],
  })
})

test('an attachment is named without secrets, and a large one is noted', async () => {
  const folder = temporaryFolder()
  const report = new PlaywrightReportBuilder()
  const about = { id: 'a', retry: 0 } as const
  const facts = { titles: ['buy'], project: '', file: 'a.spec.ts', line: 1, tags: [], retries: 0 }
  report.add({ event: 'test', id: 'a', ...facts, expectedStatus: 'passed' })
  report.add({ event: 'start', ...about, at: 0 })
  const name = 'shot/k3y:/bob:Pa55.word@hook'
  const attachments = [
    { name, contentType: 'text/plain', bytes: 1, body: 'YQ==' },
    { name: 'large', contentType: 'text/plain', bytes: 1_048_577 },
    { name: 'empty', contentType: 'text/plain', bytes: 0 },
  ]
  const passed = { status: 'passed', outcome: 'expected', ms: 1 } as const
  for (const one of attachments) report.add({ event: 'attachment', ...about, ...one })
  report.add({ event: 'end', ...about, ...passed, errors: [], annotations: [] })
  const scrubber = createScrubber({ secrets: ['k3y:/bob:Pa55.word@hook'] })
  const attached: string[] = []
  const notes = await attachSuiteFiles({
    folder,
    htmlFolder: join(folder, 'html'),
    report: report.report(),
    facts: {},
    context: {
      attach: (path) => attached.push(basename(path)),
      withoutSecrets: (text) => scrubber.text(text),
      signal: new AbortController().signal,
    },
  })
  expect(attached.at(-1)).toBe('01-buy-shot-scrubbed.txt')
  expect(notes).toEqual([expect.stringMatching(/^1 attachments .* 1 MiB$/)])
})
