// The runtimes that scripts can ask for, newest first, from the manifests in versions/.
import * as z from 'zod'
import { Runtime } from '../../contract/api/account.ts'
import { RUNTIMES } from '../../contract/runtimes.ts'
import { MANIFESTS } from '../../contract/versions.ts'
import { defineOperation, type DefinedOperation } from '../http/operation.ts'

/** The runtime of the newest agent. */
export const CURRENT_RUNTIME: string = MANIFESTS.at(-1)?.runtimes[0] ?? ''

function runtimes(): Runtime[] {
  const names = new Set(MANIFESTS.flatMap((manifest) => manifest.runtimes))
  return [...names]
    .sort()
    .toReversed()
    .map((name) => {
      const isCurrent = name === CURRENT_RUNTIME
      const { node, packages, optionalPackages } = RUNTIMES.get(name) ?? {}
      const last = MANIFESTS.findLastIndex((manifest) => manifest.runtimes.includes(name))
      return {
        name,
        stage: isCurrent ? 'CURRENT' : 'DEPRECATED',
        ...(node === undefined ? {} : { nodeJsVersion: node }),
        multiStepSupport: true,
        default: isCurrent,
        description: isCurrent
          ? 'Comes with agents of the present version'
          : `Came with agents before ${MANIFESTS[last + 1]?.version}; later ones run it where it is installed: vedette runtime install ${name}`,
        dependencies: { ...packages, ...optionalPackages },
      }
    })
}

/** The operation that lists runtimes. */
export function runtimeOperations(): DefinedOperation[] {
  const json = JSON.stringify(runtimes())
  return [
    defineOperation({
      operationId: 'getV1Runtimes',
      tag: 'Runtimes',
      summary: 'List runtimes',
      method: 'get',
      path: '/v1/runtimes',
      action: 'read',
      answers: { status: 200, schema: z.array(Runtime), description: 'The runtimes' },
      answer: async () => ({ status: 200, json }),
    }),
  ]
}
