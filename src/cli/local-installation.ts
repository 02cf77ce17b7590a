// What `vedette start` sets up on the platform that it has just started: a private location, a key for its
// agent, and the monitors of a file. By the public API, as any other program would.
import { chmodSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type BundledFile, withFileBundles } from '../client/apply-bundles.ts'
import { ApplyError, callApply } from '../client/apply-call.ts'
import type { ApplyTarget } from '../agent/platform/sync/apply-config.ts'
import { applyRequestOf } from '../client/apply.ts'
import { findingsOf } from '../client/apply-plan.ts'
import { bringBundle, missingBundles } from '../client/bundle-call.ts'
import type { Findings, Problem } from '../agent/monitors-file/problems.ts'
import { readFileToApply } from '../agent/monitors-file/file.ts'
import type { Environment } from '../process/env.ts'
import { makeFolderSync } from '../process/make-folder.ts'
import type { FileToRun } from './monitors-to-run.ts'

const CALL_MS = 30_000
const APPLY_MS = 300_000

/** The platform answered that it will not. */
export class InstallationError extends Error {
  readonly code = 'INSTALLATION'

  constructor(message: string) {
    super(message)
    this.name = 'InstallationError'
  }
}

/** A location of this installation, with the key of its agent. */
export interface LocalLocation {
  id: string
  slugName: string
  apiKey: string
  /** Where the key is kept. */
  keptIn: string
}

interface LocationAnswer {
  id: string
  slugName: string
  keys: { id: string; maskedKey: string; created_at: string }[]
}

/**
 * The location of that name with a key for its agent: the one that is kept in `folder` as long as the
 * platform knows it, or else a new one. Rejects with InstallationError.
 */
export async function ensureLocation(
  target: ApplyTarget,
  slugName: string,
  folder: string,
): Promise<LocalLocation> {
  const path = '/v1/private-locations'
  const all = (await call(target, 'GET', path)) as LocationAnswer[]
  const found = all.find((one) => one.slugName === slugName)
  const location =
    found ?? ((await call(target, 'POST', path, { name: slugName, slugName })) as LocationAnswer)
  const keptIn = join(folder, 'local-location.json')
  const kept = readKept(keptIn)
  const isKnown = location.keys.some(({ maskedKey }) => kept?.apiKey.endsWith(maskedKey.slice(-4)))
  if (kept?.id === location.id && isKnown) {
    return { id: location.id, slugName, apiKey: kept.apiKey, keptIn }
  }
  const keys = location.keys.toSorted((a, b) => a.created_at.localeCompare(b.created_at))
  // Nobody knows the key that was kept before; of two active ones the older makes room.
  if (keys.length > 1) await call(target, 'DELETE', `${path}/${location.id}/keys/${keys[0]?.id}`)
  const made = (await call(target, 'POST', `${path}/${location.id}/keys`)) as { rawKey: string }
  keep(keptIn, { id: location.id, slugName, apiKey: made.rawKey })
  return { id: location.id, slugName, apiKey: made.rawKey, keptIn }
}

async function call(
  { platformUrl, accountId, apiKey }: ApplyTarget,
  method: string,
  path: string,
  body?: object,
): Promise<unknown> {
  const response = await fetch(platformUrl + path, {
    method,
    headers: {
      authorization: `Bearer ${apiKey}`,
      'x-service-account': accountId,
      ...(body && { 'content-type': 'application/json' }),
    },
    ...(body && { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(CALL_MS),
  })
  const text = await response.text()
  if (!response.ok) throw new InstallationError(`${method} ${path}: ${response.status} ${text}`)
  return text === '' ? undefined : (JSON.parse(text) as unknown)
}

interface Kept {
  id: string
  slugName: string
  apiKey: string
}

function readKept(path: string): Kept | undefined {
  try {
    const { id, slugName, apiKey } = JSON.parse(readFileSync(path, 'utf8')) as Partial<Kept>
    if (typeof id !== 'string' || typeof slugName !== 'string') return undefined
    return typeof apiKey === 'string' ? { id, slugName, apiKey } : undefined
  } catch {
    // The first start, or somebody took it away: another key is made.
    return undefined
  }
}

/** For its owner alone, whole or not at all. */
function keep(path: string, kept: Kept): void {
  makeFolderSync(join(path, '..'), 0o755)
  const draft = `${path}.new`
  writeFileSync(draft, `${JSON.stringify(kept, null, 2)}\n`, { mode: 0o600 })
  chmodSync(draft, 0o600)
  renameSync(draft, path)
}

/** A file that was read to be applied, or what is wrong with it. */
export type ReadInstallation = Awaited<ReturnType<typeof readFileToApply>>

/** Reads the file of monitors. */
export function readInstallation(file: FileToRun, env: Environment): Promise<ReadInstallation> {
  return readFileToApply(file.path, env, file.variables)
}

/** What is brought to the platform of this installation. */
export interface Installing {
  target: ApplyTarget
  /** Where the file lies: projects of suites are named from there. */
  path: string
  /** The location of monitors that name none. */
  slugName: string
  /** Gives it up. */
  signal: AbortSignal
}

/**
 * Makes the platform's monitors those of the file, on the location where they name none, with the projects of
 * its suites; what an earlier start brought and the file has no more is deleted. Answers with what is wrong.
 * Rejects with ApplyError.
 */
export function applyInstallation(
  read: ReadInstallation & { ok: true },
  installing: Installing,
): Promise<Problem[]> {
  return withFileBundles(read.file, installing.path, async (bundled) => {
    if ('findings' in bundled) return read.locate(bundled.findings)
    return read.locate(await applyBundled(bundled, installing))
  })
}

async function applyBundled(
  { file, bundles }: Extract<BundledFile, { file: unknown }>,
  { target, slugName, signal: given }: Installing,
): Promise<Findings> {
  const signal = AbortSignal.any([given, AbortSignal.timeout(APPLY_MS)])
  for (const one of await missingBundles(target, bundles, signal)) {
    await bringBundle(target, one, signal)
  }
  const order = { path: '', name: 'vedette start', prune: true, planOnly: false }
  const request = applyRequestOf({ ...file, location: slugName }, order)
  const answer = await callApply(target, request, { signal, deadlineMs: APPLY_MS })
  const isDue = answer.plan.some((one) => one.action !== 'unchanged')
  if (answer.problems.length === 0 && !answer.applied && isDue) {
    throw new ApplyError('refused', 'the platform did not take the monitors')
  }
  return findingsOf(answer.problems, file)
}
