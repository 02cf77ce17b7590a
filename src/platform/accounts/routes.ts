// The account that a key belongs to, and the key itself as a user: what clients ask for first.
import { Account, User } from '../../contract/api/account.ts'
import { notFound } from '../http/errors.ts'
import { defineOperation, type DefinedOperation } from '../http/operation.ts'
import { idParameter } from '../http/parameters.ts'
import { CURRENT_RUNTIME } from './runtimes.ts'

/** Where the names of accounts are. */
export interface AccountSource {
  /** The account with this id, or undefined. */
  find(id: string): Promise<{ id: string; name: string } | undefined>
}

/** The operations on accounts and users. */
export function accountOperations(accounts: AccountSource): DefinedOperation[] {
  const answers = { status: 200 as const, schema: Account, description: 'The account' }
  const read = async (id: string): Promise<{ status: 200; json: string }> => {
    const account = await accounts.find(id)
    if (account === undefined) throw notFound('account')
    const { name } = account
    const whole: Account = {
      id,
      name,
      runtimeId: CURRENT_RUNTIME,
      plan: 'SELF_HOSTED',
      features: [],
    }
    return { status: 200, json: JSON.stringify(whole) }
  }
  return [
    defineOperation({
      operationId: 'getV1AccountsMe',
      tag: 'Accounts',
      summary: 'Read the account of the key',
      method: 'get',
      path: '/v1/accounts/me',
      action: 'read',
      answers,
      answer: ({ key }) => read(key.accountId),
    }),
    defineOperation({
      operationId: 'getNextAccountsId',
      tag: 'Accounts',
      summary: 'Read an account',
      method: 'get',
      path: '/next/accounts/{id}',
      action: 'read',
      params: { id: idParameter('account') },
      answers,
      async answer({ key, params }) {
        if (params.id !== key.accountId) throw notFound('account')
        return read(params.id)
      },
    }),
    defineOperation({
      operationId: 'getNextUsersMe',
      tag: 'Accounts',
      summary: 'Read who is asking',
      description: 'A key stands for a service user of its own.',
      method: 'get',
      path: '/next/users/me',
      action: 'read',
      answers: { status: 200, schema: User, description: 'The user' },
      async answer({ key: { id, name, role, accountId } }) {
        return { status: 200, json: JSON.stringify({ id, name, role, accountId }) }
      },
    }),
  ]
}
