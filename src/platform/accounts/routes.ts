// What clients ask for first: the account that a key belongs to, the key itself as a user, and the runtimes that
// scripts can ask for.
import * as z from 'zod'
import { Account, Runtime, User } from '../../contract/api/account.ts'
import { RUNTIMES } from '../../contract/runtimes.ts'
import { MANIFESTS } from '../../contract/versions.ts'
import type { Database } from '../../database/database.ts'
import { notFound, orNotFound } from '../http/errors.ts'
import { defineOperation, type DefinedOperation } from '../http/operation.ts'
import { idParameter } from '../http/parameters.ts'
import { readAccount } from './queries/accounts.ts'

const CURRENT_RUNTIME: string = MANIFESTS.at(-1)?.runtimes[0] ?? ''

/** The operations on accounts and users. */
export function accountOperations(database: Database): DefinedOperation[] {
  const answers = { status: 200 as const, schema: Account, description: 'The account' }
  const read = async (id: string): Promise<string> => {
    const account = orNotFound(await readAccount(database, id), 'account')
    const { name } = account
    const plan = 'SELF_HOSTED'
    const whole: Account = { id, name, runtimeId: CURRENT_RUNTIME, plan, features: [] }
    return JSON.stringify(whole)
  }
  return [
    defineOperation({
      tag: 'Accounts',
      summary: 'Read the account of the key',
      method: 'get',
      path: '/v1/accounts/me',
      answers,
      answer: ({ key }) => read(key.accountId),
    }),
    defineOperation({
      tag: 'Accounts',
      summary: 'Read an account',
      method: 'get',
      path: '/next/accounts/{id}',
      params: { id: idParameter('account') },
      answers,
      async answer({ key, params }) {
        if (params.id !== key.accountId) throw notFound('account')
        return read(params.id)
      },
    }),
    defineOperation({
      tag: 'Accounts',
      summary: 'Read who is asking',
      description: 'A key represents its own service user.',
      method: 'get',
      path: '/next/users/me',
      answers: { status: 200, schema: User, description: 'The user' },
      async answer({ key: { id, name, role, accountId } }) {
        return JSON.stringify({ id, name, role, accountId })
      },
    }),
  ]
}

/** The runtimes, newest first, from the manifests in versions/. */
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
export function runtimesOperation(): DefinedOperation {
  const json = JSON.stringify(runtimes())
  return defineOperation({
    tag: 'Runtimes',
    summary: 'List runtimes',
    method: 'get',
    path: '/v1/runtimes',
    answers: { status: 200, schema: z.array(Runtime), description: 'The runtimes' },
    answer: async () => json,
  })
}
