// `vedette apply`: makes a platform's monitors, groups and variables those of a file. The platform
// compares and changes; here the file is read, sent, and the plan shown.
import { basename } from 'node:path'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { APPLY_BOUNDS, ApplyAnswer, type ApplyRequest } from '../contract/api/apply.ts'
import { bringBundle, type FileBundle, missingBundles, withFileBundles } from './apply-bundles.ts'
import type { ApplyTarget } from './config.ts'
import { type CommandContext, onPlatform, PlatformError } from './command.ts'
import { changesAnything, findingsOf, planText } from './apply-plan.ts'
import { askPublicApi } from './public-api.ts'
import {
  countedProblems,
  formatProblem,
  type Problem,
  seeProblems,
} from '../agent/monitors-file/problems.ts'
import { type LoadedFile, readFileToApply } from '../agent/monitors-file/file.ts'
import { EXIT } from '../process/exit-codes.ts'

const DEADLINE_MS = 300_000

export interface ApplyOrder {
  path: string
  /** The name of the file on the platform; its base name by default. */
  name: string | undefined
  prune: boolean
  /** Shows what would change and changes nothing. */
  planOnly: boolean
}

/** The request that a file stands for. Its monitors are named by their ids in it. */
function applyRequestOf(file: LoadedFile, order: ApplyOrder): ApplyRequest {
  const { location, privateLocations, groupOf } = file
  const otherwise = location === undefined ? [] : [location]
  return {
    name: order.name ?? basename(order.path),
    prune: order.prune,
    dryRun: order.planOnly,
    locations: privateLocations.length > 0 ? privateLocations : otherwise,
    groups: [...file.groups].flatMap(([key, definition]) =>
      definition === undefined ? [] : [{ key, definition }],
    ),
    monitors: file.monitors.map(({ id, ...definition }) => ({
      key: id,
      ...(groupOf.has(id) && { group: groupOf.get(id) }),
      definition,
    })),
    variables: file.variables,
  }
}

/** What came of a file: its problems, or the platform's answer and the bundles that it did not have. */
type Applied = { problems: Problem[] } | { answer: ApplyAnswer; missing: FileBundle[] }

/** Applies a file that was read, its missing bundles first. Rejects with PlatformError. */
export function applyFile(
  file: LoadedFile,
  order: ApplyOrder,
  target: ApplyTarget,
  signal: AbortSignal,
): Promise<Applied> {
  return withFileBundles(file, order.path, async (bundled) => {
    if ('findings' in bundled) return { problems: file.locate(bundled.findings) }
    const missing = await missingBundles(target, bundled.bundles, signal)
    const request = applyRequestOf(bundled.file, order)
    if (order.planOnly && missing.length > 0) request.bundles = missing.map(({ sha256 }) => sha256)
    else for (const one of missing) await bringBundle(target, one, signal)
    const answer = await send(request, target, signal)
    if (answer.problems.length === 0) return { answer, missing }
    return { problems: file.locate(findingsOf(answer.problems, file)) }
  })
}

async function send(
  request: ApplyRequest,
  target: ApplyTarget,
  signal: AbortSignal,
): Promise<ApplyAnswer> {
  const plain = Buffer.from(JSON.stringify(request))
  if (plain.byteLength > APPLY_BOUNDS.bodyBytesMax) {
    const message = `the file is too large for one call: ${plain.byteLength} bytes as JSON, at most ${APPLY_BOUNDS.bodyBytesMax}; split it`
    throw new PlatformError('refused', message)
  }
  const call = {
    method: 'POST',
    path: '/v1/apply',
    body: await promisify(gzip)(plain),
    headers: { 'content-type': 'application/json', 'content-encoding': 'gzip' },
    deadlineMs: DEADLINE_MS,
    signal,
    ifAborted: 'interrupted; the file may have been applied',
  } as const
  return askPublicApi(target, call, ApplyAnswer)
}

/**
 * Applies the file; resolves with the exit code: 0 done or nothing to do, 1 a plan that changes
 * something, 2 the file or the settings are bad or the platform refuses them, 3 no platform.
 */
export function runApply(
  order: ApplyOrder,
  context: CommandContext,
  signal: AbortSignal,
): Promise<number> {
  const { env, write, complain, colour } = context
  return onPlatform('apply', context, async (target) => {
    const read = await readFileToApply(order.path, env)
    const warnings = read.ok ? read.file.warnings : []
    for (const one of warnings) complain(`warning: ${formatProblem(one)}\n`)
    const applied = read.ok ? await applyFile(read.file, order, target, signal) : read
    if ('problems' in applied) {
      complain(applied.problems.map((one) => `${formatProblem(one)}\n`).join(''))
      const count = countedProblems(applied.problems)
      complain(`vedette apply: ${count} in the monitors file; nothing was changed\n`)
      complain(seeProblems(applied.problems))
      return EXIT.configuration
    }
    const { answer, missing } = applied
    write(planText(answer, missing, colour))
    if (!changesAnything(answer) && missing.length === 0) return 0
    if (order.planOnly) return EXIT.failed
    write(answer.applied ? 'applied\n' : 'not applied\n')
    return answer.applied ? 0 : EXIT.noPlatform
  })
}
