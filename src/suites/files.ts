// The files of a suite's run as artifacts: results as JSON and JUnit XML, the HTML report, and what tests
// attached, such as traces and videos, under names that say whose they are.
import { createWriteStream } from 'node:fs'
import { lstat, mkdtemp, opendir, realpath, rename, writeFile } from 'node:fs/promises'
import { basename, extname, join, relative, sep } from 'node:path'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { ZipFile } from 'yazl'
import { LIMITS } from '../contract/versions.ts'
import type { ScriptContext } from '../scripts/context.ts'
import type { RunAttachment } from '../scripts/playwright/events.ts'
import { playwrightJunit } from '../scripts/playwright/junit.ts'
import {
  byUrgency,
  type PlaywrightReport,
  type TestAttempt,
  type TestReport,
} from '../scripts/playwright/report.ts'
import { leadsInside } from '../sandbox/untrusted-files.ts'

export interface SuiteFiles {
  /** The folder of the run, in which nothing runs any more. */
  folder: string
  /** Where Playwright has written its HTML report, if it has. */
  htmlFolder: string
  report: PlaywrightReport
  /** Facts for the head of results.json. */
  facts: Record<string, unknown>
  context: Pick<ScriptContext, 'attach' | 'withoutSecrets' | 'signal'>
}

/** Attachments of tests; the result takes a hundred files in all. */
const ATTACHED_MAX = 90
const HTML_FILES_MAX = 5000
/** Of zlib: more takes twice the time for a tenth of the bytes. */
const REPORT_LEVEL = 3

/** Hands all of them over. Sentences say what is left out, and why. */
export async function attachSuiteFiles(files: SuiteFiles): Promise<string[]> {
  const { folder, report, facts, context } = files
  const target = await mkdtemp(join(folder, 'files-'))
  const notes: string[] = []
  const json = join(target, 'results.json')
  const junit = join(target, 'junit.xml')
  // At once, so that the receiver gets ready for them.
  context.attach(json)
  context.attach(junit)
  const named = await moveAttachments(files, target, notes)
  const zip = join(target, HTML_ZIP)
  const problem = await packHtml(files, zip).catch(
    // Tests may have closed a file of it to the agent.
    (error: Error) => `${HTML_ZIP}: it cannot be packed (${error.message})`,
  )
  await writeFile(json, JSON.stringify({ ...facts, ...withNames(report, named) }, null, 1))
  await writeFile(junit, playwrightJunit(report))
  if (problem === undefined) context.attach(zip)
  else if (problem !== '') notes.push(problem)
  for (const path of named.values()) context.attach(path)
  return notes
}

const HTML_ZIP = 'playwright-report.zip'

type Named = ReadonlyMap<RunAttachment, string>

/** The report with names of artifacts where it had paths and bytes of attachments. */
function withNames(report: PlaywrightReport, named: Named): Record<string, unknown> {
  const attemptOf = (attempt: TestAttempt) => ({
    ...attempt,
    attachments: attempt.attachments.map((one) => {
      const file = named.get(one)
      const { name, contentType, bytes } = one
      return { name, contentType, bytes, file: file && basename(file) }
    }),
  })
  const tests = report.tests.map((test) => ({ ...test, attempts: test.attempts.map(attemptOf) }))
  return { ...report, tests }
}

/** What tests attached, moved to its name; what belongs to failures comes first. */
async function moveAttachments(
  { folder, report, context }: SuiteFiles,
  target: string,
  notes: string[],
): Promise<Map<RunAttachment, string>> {
  const named = new Map<RunAttachment, string>()
  const inside = await realpath(folder)
  const withoutSecrets = context.withoutSecrets ?? ((text: string) => text)
  const all = byUrgency(report.tests).flatMap((test) =>
    test.attempts.flatMap((attempt) =>
      attempt.attachments.map((file) => ({ test, attempt, file })),
    ),
  )
  let large = 0
  for (const [index, { test, attempt, file }] of all.entries()) {
    if (named.size >= ATTACHED_MAX) {
      const left = all.length - index
      notes.push(`${left} attachments of tests: there were more than ${ATTACHED_MAX}`)
      break
    }
    const path = join(target, nameFor(test, attempt, file, named.size, withoutSecrets))
    if (await moved(file, path, inside)) named.set(file, path)
    else if (isTooLarge(file)) large++
  }
  if (large > 0) notes.push(`${large} attachments of tests: by \`body\`, they have at most 1 MiB`)
  return named
}

/** Of such an attachment the reporter hands over its length alone. */
function isTooLarge({ path, body, bytes = 0 }: RunAttachment): boolean {
  return path === undefined && body === undefined && bytes > 0
}

/** `03-log-in-chromium-retry1-trace.zip`. */
function nameFor(
  test: TestReport,
  { retry }: TestAttempt,
  file: RunAttachment,
  index: number,
  withoutSecrets: (text: string) => string,
) {
  const end = file.path === undefined ? endFor(file.contentType) : extname(file.path)
  const again = retry === 0 ? '' : `retry${retry}`
  const parts = [test.title, test.project, again, file.name.replace(/\.\w{1,5}$/, '')].map((part) =>
    slug(withoutSecrets(part)),
  )
  const number = String(index + 1).padStart(2, '0')
  const name = [number, ...parts.filter((one) => one !== '')].join('-')
  return /^\.\w{1,10}$/.test(end) ? name + end.toLowerCase() : name
}

function slug(text: string): string {
  return (
    text
      // Letters with marks become those without.
      .normalize('NFKD')
      .replaceAll(/\p{M}+/gu, '')
      .replaceAll(/[^\w]+/g, '-')
      .replaceAll(/^-+|-+$/g, '')
      .slice(0, 60)
      .toLowerCase()
  )
}

const ENDS: Readonly<Record<string, string>> = {
  'text/plain': '.txt',
  'text/html': '.html',
  'text/markdown': '.md',
  'application/json': '.json',
  'image/png': '.png',
  'image/jpeg': '.jpg',
}

function endFor(contentType: string): string {
  return ENDS[contentType.split(';')[0] ?? ''] ?? '.bin'
}

/** False when it is no file of the run, or gone. */
async function moved({ path, body }: RunAttachment, to: string, inside: string): Promise<boolean> {
  try {
    if (path === undefined) {
      if (body === undefined || body === '') return false
      await writeFile(to, Buffer.from(body, 'base64'), { flag: 'wx' })
      return true
    }
    const real = await realpath(path)
    if (!real.startsWith(inside + sep) || !(await lstat(real)).isFile()) return false
    await rename(real, to)
    return true
  } catch {
    return false
  }
}

/** Packs the HTML report; a sentence where it is left out, empty where there is none. */
async function packHtml(
  { folder, htmlFolder, context }: SuiteFiles,
  path: string,
): Promise<string | undefined> {
  // A link in its place would lead to files of others.
  if (!(await leadsInside(htmlFolder, folder))) return ''
  const found = await filesBelow(htmlFolder)
  if (!found.some(({ name }) => name === 'index.html')) return ''
  // Little time is left.
  if (context.signal.aborted) return `${HTML_ZIP}: the run was ended before it was packed`
  const bytes = found.reduce((sum, one) => sum + one.bytes, 0)
  if (bytes > LIMITS.artifactBytesMax || found.length > HTML_FILES_MAX) {
    const has = `the report has ${bytes} bytes in ${found.length} files`
    const may = `it may have ${LIMITS.artifactBytesMax} bytes in ${HTML_FILES_MAX} files`
    return `${HTML_ZIP} is left out: ${has}, and ${may}`
  }
  const zip = new ZipFile()
  const output = zip.outputStream as Readable
  // The archiver reports files that it cannot read by itself, and its stream would never end.
  zip.on('error', (error: Error) => output.destroy(error))
  const written = pipeline(output, createWriteStream(path, { flags: 'wx' }))
  try {
    for (const { name } of found) {
      // Pictures, videos and traces are packed already.
      const isText = /\.(?:html|js|css|md|txt|json)$/.test(name)
      const packed = isText ? { compressionLevel: REPORT_LEVEL } : { compress: false }
      zip.addFile(join(htmlFolder, name), name, { mtime: new Date(0), ...packed })
    }
    zip.end()
  } catch (error) {
    // A name that no zip may have.
    output.destroy(error as Error)
  }
  await written
  return undefined
}

/** The files of a folder, not many more than a report may have. */
async function filesBelow(folder: string): Promise<{ name: string; bytes: number }[]> {
  const found: { name: string; bytes: number }[] = []
  for await (const entry of await opendir(folder, { recursive: true })) {
    if (!entry.isFile()) continue
    const path = join(entry.parentPath, entry.name)
    found.push({ name: relative(folder, path), bytes: (await lstat(path)).size })
    if (found.length > HTML_FILES_MAX) break
  }
  return found
}
