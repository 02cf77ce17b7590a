// Aim: a report that is too large, or that tests have made unreadable for the agent, is left out and named, and
// ends nothing else.
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { AS_NOBODY } from '../support/as-nobody.ts'

const SOURCES = join(import.meta.dirname, '../../src')
const PROGRAM = `import { mkdirSync, mkdtempSync, writeFileSync, rmSync } from 'node:fs'
import { basename } from 'node:path'
import { attachSuiteFiles } from '${SOURCES}/suites/files.ts'
import { PlaywrightReportBuilder } from '${SOURCES}/scripts/playwright/report.ts'
const folder = mkdtempSync('/tmp/vedette-report-')
const htmlFolder = folder + '/html'
mkdirSync(htmlFolder)
writeFileSync(htmlFolder + '/index.html', 'report')
if (process.argv[1] === 'closed') writeFileSync(htmlFolder + '/closed.html', '', { mode: 0 })
else if (process.argv[1] === 'large') writeFileSync(htmlFolder + '/large.html', 'x'.repeat(1e6))
else writeFileSync(htmlFolder + '/..\\\\b.html', '')
const attached = []
const notes = await attachSuiteFiles({
  folder, htmlFolder, facts: {}, report: new PlaywrightReportBuilder().report(),
  attach: (path) => attached.push(basename(path)), withoutSecrets: (text) => text,
  reportBytesMax: 1e6, isHurried: false,
})
rmSync(folder, { recursive: true })
console.log(JSON.stringify({ notes, attached }))`
/** Root may read everything. */
const asNobody = process.getuid?.() === 0 ? AS_NOBODY : []

test.each([
  ['a file that nobody may read', 'closed', 'EACCES'],
  ['a name that no zip may have', 'named', 'invalid'],
  ['too many bytes', 'large', 'left out.* 1000006 bytes in 2 files.* 1000000 bytes'],
])('a report with %s is left out', async (_, which, why) => {
  const node = [process.execPath, '--input-type=module', '-e', PROGRAM, which]
  const [command = '', ...args] = [...asNobody, ...node]
  const { stdout } = await promisify(execFile)(command, args, { cwd: '/' })
  expect(JSON.parse(stdout)).toEqual({
    notes: [expect.stringMatching(new RegExp(`^playwright-report\\.zip\\b.*${why}`))],
    attached: ['results.json', 'junit.xml'],
  })
})
