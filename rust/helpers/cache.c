// SPDX-License-Identifier: GPL-2.0

__rust_helper void rust_helper_dev_hold(struct net_device *dev)
{
	dev_hold(dev);
}

__rust_helper void rust_helper_dev_put(struct net_device *dev)
{
	dev_put(dev);
}

__rust_helper bool rust_helper_is_vlan_dev(const struct net_device *dev)
{
	return is_vlan_dev(dev);
}

__rust_helper bool rust_helper_netif_is_bond_master(const struct net_device *dev)
{
	return netif_is_bond_master(dev);
}

__rust_helper bool rust_helper_netif_is_bond_slave(const struct net_device *dev)
{
	return netif_is_bond_slave(dev);
}

__rust_helper bool rust_helper_netif_is_lag_master(const struct net_device *dev)
{
	return netif_is_lag_master(dev);
}

__rust_helper bool rust_helper_netif_is_lag_port(const struct net_device *dev)
{
	return netif_is_lag_port(dev);
}

__rust_helper bool rust_helper_netif_running(const struct net_device *dev)
{
	return netif_running(dev);
}

__rust_helper bool rust_helper_netif_carrier_ok(const struct net_device *dev)
{
	return netif_carrier_ok(dev);
}

__rust_helper struct net_device *
rust_helper_bond_option_active_slave_get_rcu(struct net_device *master)
{
	return bond_option_active_slave_get_rcu(netdev_priv(master));
}

__rust_helper struct net *rust_helper_dev_net(const struct net_device *dev)
{
	return dev_net(dev);
}

__rust_helper struct in_device *rust_helper___in_dev_get_rcu(const struct net_device *dev)
{
	return __in_dev_get_rcu(dev);
}

__rust_helper struct inet6_dev *rust_helper_in6_dev_get(const struct net_device *dev)
{
	return in6_dev_get(dev);
}

__rust_helper void rust_helper_in6_dev_put(struct inet6_dev *idev)
{
	in6_dev_put(idev);
}

__rust_helper void rust_helper_read_lock_bh(rwlock_t *lock)
{
	read_lock_bh(lock);
}

__rust_helper void rust_helper_read_unlock_bh(rwlock_t *lock)
{
	read_unlock_bh(lock);
}

__rust_helper int rust_helper_addrconf_ifid_eui48(u8 *eui, struct net_device *dev)
{
	return addrconf_ifid_eui48(eui, dev);
}

__rust_helper const char *rust_helper_ib_port_state_to_str(enum ib_port_state state)
{
	return ib_port_state_to_str(state);
}
