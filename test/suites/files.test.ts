// Aim: a report that is too large, or that tests have made unreadable for the agent, is left out and named, and
// ends nothing else.
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { AS_NOBODY } from '../support/as-nobody.ts'

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
