// Set-up of `vedette start` on its platform, through the public API: a private location, a key for its agent, and
// the monitors of a file.
import { chmodSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type BundledFile, withFileBundles } from '../client/apply-bundles.ts'
import { ApplyError, callApply } from '../client/apply-call.ts'
import type { ApplyTarget } from '../client/config.ts'
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

/** The platform refused a call. */
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
  /** The file with the key. */
  keyFile: string
}

interface LocationAnswer {
  id: string
  slugName: string
  keys: { id: string; maskedKey: string; created_at: string }[]
}

/**
 * The location of that name with a key for its agent: the stored key of `folder` if the platform still knows it,
 * else a new one. Rejects with InstallationError.
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
  const keyFile = join(folder, 'local-location.json')
  const stored = readStored(keyFile)
  const isKnown = location.keys.some(({ maskedKey }) =>
    stored?.apiKey.endsWith(maskedKey.slice(-4)),
  )
  if (stored?.id === location.id && isKnown) {
    return { id: location.id, slugName, apiKey: stored.apiKey, keyFile }
  }
  const keys = location.keys.toSorted((a, b) => a.created_at.localeCompare(b.created_at))
  // The stored key is lost or unknown to the platform. A location has two keys at most: the older one is deleted.
  if (keys.length > 1) await call(target, 'DELETE', `${path}/${location.id}/keys/${keys[0]?.id}`)
  const made = (await call(target, 'POST', `${path}/${location.id}/keys`)) as { rawKey: string }
  store(keyFile, { id: location.id, slugName, apiKey: made.rawKey })
  return { id: location.id, slugName, apiKey: made.rawKey, keyFile }
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

interface StoredLocation {
  id: string
  slugName: string
  apiKey: string
}

function readStored(path: string): StoredLocation | undefined {
  try {
    const { id, slugName, apiKey } = JSON.parse(
      readFileSync(path, 'utf8'),
    ) as Partial<StoredLocation>
    if (typeof id !== 'string' || typeof slugName !== 'string') return undefined
    return typeof apiKey === 'string' ? { id, slugName, apiKey } : undefined
  } catch {
    // The first start, or the file was removed: a new key is created.
    return undefined
  }
}

/** Writes the file atomically, readable by its owner alone. */
function store(path: string, location: StoredLocation): void {
  makeFolderSync(join(path, '..'), 0o755)
  const draft = `${path}.new`
  writeFileSync(draft, `${JSON.stringify(location, null, 2)}\n`, { mode: 0o600 })
  chmodSync(draft, 0o600)
  renameSync(draft, path)
}

/** A monitors file to apply, or its problems. */
export type ReadInstallation = Awaited<ReturnType<typeof readFileToApply>>

/** Reads the monitors file. */
export function readInstallation(file: FileToRun, env: Environment): Promise<ReadInstallation> {
  return readFileToApply(file.path, env, file.variables)
}

/** Where and how a file is applied. */
export interface InstallationOptions {
  target: ApplyTarget
  /** Path of the file: paths of suite projects are relative to it. */
  path: string
  /** The location of monitors that name none. */
  slugName: string
  /** Aborts the calls. */
  signal: AbortSignal
}

/**
 * Applies the file to the platform: monitors, on the location where they name none, and projects of suites.
 * Monitors of an earlier start that are not in the file any more are deleted. Resolves with the problems of the
 * file; rejects with ApplyError.
 */
export function applyInstallation(
  read: ReadInstallation & { ok: true },
  options: InstallationOptions,
): Promise<Problem[]> {
  return withFileBundles(read.file, options.path, async (bundled) => {
    if ('findings' in bundled) return read.locate(bundled.findings)
    return read.locate(await applyBundled(bundled, options))
  })
}

async function applyBundled(
  { file, bundles }: Extract<BundledFile, { file: unknown }>,
  { target, slugName, signal: given }: InstallationOptions,
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
    throw new ApplyError('refused', 'the platform did not apply the monitors')
  }
  return findingsOf(answer.problems, file)
}
